#pragma once

#include <string>
#include <vector>

#include "cxtrain/base/error.h"

namespace cxtrain {

/// Whether a YAML text has the shape of a configuration: one document, no deeper and no larger than any
/// configuration is once its aliases are followed, and no alias to what it is part of. Appends a problem with
/// the line otherwise, and for what is no YAML; then nothing should be built from the text, since following
/// it may take for ever.
void check_yaml_shape(const std::string& text, const std::string& file, std::vector<Problem>& problems);

}  // namespace cxtrain
