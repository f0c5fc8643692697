#include "support/fake_device/host.h"

#include <algorithm>

#include "support/fake_device/fake_device.h"
#include "support/fake_device/late_copies.h"

namespace cxtrain::test {

namespace {

std::vector<HostReads*>& scopes() {
  static std::vector<HostReads*> all;
  return all;
}

void host_knows(const VectorClock& clock) {
  Timeline::instance().host().join(clock);
  LateCopies::instance().end_known();
}

}  // namespace

HostReads::HostReads() {
  const FakeLock lock(fake_mutex());
  scopes().push_back(this);
}

HostReads::~HostReads() {
  const FakeLock lock(fake_mutex());
  std::erase(scopes(), this);
}

std::vector<std::string> HostReads::names() const {
  const FakeLock lock(fake_mutex());
  return names_;
}

void note_host_read(const std::string& name) {
  const FakeLock lock(fake_mutex());
  for (HostReads* const scope : scopes()) scope->names_.push_back(name);
}

void host_waits(FakeLock& lock, const VectorClock& clock, const std::string& name) {
  note_host_read(name);
  const VectorClock seen = clock;  // the stream may go on while this waits
  Timeline::instance().wait(lock, seen, name);
  host_knows(seen);
}

bool host_asks(const VectorClock& clock) {
  if (!Timeline::instance().finished(clock)) return false;
  host_knows(clock);
  return true;
}

}  // namespace cxtrain::test
