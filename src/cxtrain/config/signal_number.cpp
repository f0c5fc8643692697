#include "cxtrain/config/signal_number.h"

#include <array>
#include <csignal>
#include <cstddef>

namespace cxtrain {

int signal_number(RequeueSignal signal) {
  constexpr std::array<int, 4> kNumbers{0, SIGUSR1, SIGUSR2, SIGHUP};
  return kNumbers[static_cast<std::size_t>(signal)];
}

}  // namespace cxtrain
