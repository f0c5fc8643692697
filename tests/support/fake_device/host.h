#pragma once

#include <string>

#include "support/fake_device/timeline.h"

namespace cxtrain::test {

/// Waits for all that the clock knows of; then the host knows it, and late copies have ended. Counted as a
/// host read of this name.
void host_waits(FakeLock& lock, const VectorClock& clock, const std::string& name);
/// Whether all that the clock knows of has ended; if so, the host knows it from now on.
bool host_asks(const VectorClock& clock);
/// For all HostReads that exist.
void note_host_read(const std::string& name);

}  // namespace cxtrain::test
