#include "support/fake_device/launch.h"

#include "support/fake_device/guard.h"
#include "support/fake_device/host.h"
#include "support/fake_device/late_copies.h"

namespace cxtrain::test {

FakeStream& current_stream(c10::Device device) {
  const FakeLock lock(fake_mutex());
  return Timeline::instance().at(FakeGuard::instance().getStream(device));
}

Launch::Launch(std::string name, c10::Device device, const std::vector<Access>& accesses)
    : Launch(std::move(name), current_stream(device), accesses) {}

Launch::Launch(std::string name, FakeStream& stream, const std::vector<Access>& accesses)
    : stream_(stream), operation_{"", stream.stream, 0, 0} {
  const FakeLock lock(fake_mutex());
  operation_ = Timeline::instance().launch(std::move(name), stream_);
  OrderChecker::instance().note(operation_, stream_.clock, accesses);
  for (const Access& access : accesses) {
    for (const ByteSet& bytes : access.bytes) LateCopies::instance().need(bytes);
  }
}

void Launch::made(const at::Tensor& result) const {
  const FakeLock lock(fake_mutex());
  OrderChecker::instance().note_result(operation_, stream_.clock, result);
}

void Launch::wait(const std::string& name) const {
  FakeLock lock(fake_mutex());
  host_waits(lock, stream_.clock, name);
}

}  // namespace cxtrain::test
