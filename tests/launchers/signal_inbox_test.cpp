#include "launchers/signal_inbox.h"

#include <csignal>

#include "support/catch.h"

namespace cxtrain::test {

TEST_CASE("SIGTERMs of one request arrive once, and every SIGINT arrives") {
  SignalInbox signals;
  CHECK_FALSE(signals.take());
  raise(SIGTERM);
  CHECK(signals.take() == SIGTERM);
  raise(SIGTERM);
  CHECK_FALSE(signals.take());
  for (int i = 0; i < 2; ++i) {
    raise(SIGINT);
    CHECK(signals.take() == SIGINT);
  }
  raise(SIGTERM);
  raise(SIGUSR2);
  CHECK(signals.take() == SIGUSR2);  // also behind a SIGTERM that does not count
  CHECK_FALSE(signals.take());
}

}  // namespace cxtrain::test
