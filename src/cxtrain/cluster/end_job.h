#pragma once

#include <string>

#include "cxtrain/base/error.h"

namespace cxtrain {

class World;

/// Reports an error of this rank alone, and ends the job with its status, because the other ranks may wait
/// for this rank for ever. `where`: in the run; may be empty. Does not return if there are other ranks.
void end_job(World& world, const std::string& where, ExitCode code, const std::string& message) noexcept;

}  // namespace cxtrain
