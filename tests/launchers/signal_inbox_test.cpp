#include "launchers/signal_inbox.h"

#include <csignal>

#include "support/catch.h"

namespace cxtrain::test {

TEST_CASE("SIGTERMs of one request arrive once, and every SIGINT arrives") {
  SignalInbox signals({SIGCHLD});
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
  raise(SIGCHLD);  // arrives behind SIGTERM, which has a smaller number
  CHECK(signals.take() == SIGCHLD);
  CHECK_FALSE(signals.take());
}

}  // namespace cxtrain::test
