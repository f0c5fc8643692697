#pragma once

#include <string>

#include "cxtrain/base/error.h"

namespace cxtrain {

/// A checkpoint or a file of weights cannot be read: it is missing, damaged, of an unknown kind, or does not
/// fit. The message names the file and the reason.
class CheckpointError : public Error {
 public:
  explicit CheckpointError(const std::string& message, MessageCode code = MessageCode::bad_checkpoint)
      : Error(ExitCode::refused, code, message) {}
};

}  // namespace cxtrain
