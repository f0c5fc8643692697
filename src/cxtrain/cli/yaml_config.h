#pragma once

#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cli/setting.h"

namespace cxtrain {

/// The settings of a YAML file: nested maps flatten to dotted keys, `model: gpt` and `model: {name: gpt}` are
/// the same, a list becomes the text "[a, b]" (for a repeatable option: several settings). What is no YAML,
/// no map, or has another shape than a configuration is a problem that names the file and the
/// line.
std::vector<Setting> read_yaml(const std::string& text, const std::string& file,
                               std::vector<Problem>& problems);

/// The options as YAML that reads back as the same options: the `config.yaml` of a run and what
/// `--print_config` shows. Leaves out the subcommand and what belongs to `plan` and `info` only.
std::string to_yaml(const Options& options);

/// Whether a YAML text has the shape of a configuration: one document, no deeper and no larger than any
/// configuration is once its aliases are followed, and no alias to what it is part of. Appends a problem with
/// the line otherwise, and for what is no YAML; then nothing should be built from the text, since following
/// it may take for ever.
void check_yaml_shape(const std::string& text, const std::string& file, std::vector<Problem>& problems);

}  // namespace cxtrain
