#pragma once

#include <functional>
#include <optional>

#include "cxtrain/trainer/resume.h"
#include "cxtrain/trainer/session.h"

namespace cxtrain {

/// Returns a function that runs a fit in an open session. The objects of the fit end with the function, which
/// ends before the session. `from`: the training to resume; absent: a new one. The function is collective.
std::function<void(Session&)> make_fit(std::optional<LoadedCheckpoint> from);

}  // namespace cxtrain
