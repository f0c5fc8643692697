#pragma once

#include <array>
#include <csignal>
#include <cstddef>

#include "cxtrain/config/values.h"

namespace cxtrain {

/// The system's number; 0 for none.
inline int signal_number(RequeueSignal signal) {
  constexpr std::array<int, 4> kNumbers{0, SIGUSR1, SIGUSR2, SIGHUP};
  return kNumbers[static_cast<std::size_t>(signal)];
}

}  // namespace cxtrain
