#include "support/fake_device/late_copies.h"

#include <algorithm>
#include <cstring>

#include "support/fake_device/byte_set.h"

namespace cxtrain::test {

LateCopies& LateCopies::instance() {
  static auto* const copies = new LateCopies;
  return *copies;
}

void LateCopies::to_host(const Operation& operation, const VectorClock& clock, void* host, const void* device,
                         std::size_t bytes, std::shared_ptr<const void> pinned) {
  copies_.push_back({operation, clock, false, host, device, bytes_at(device, bytes),
                     pinned_bytes(host, bytes, clock), std::move(pinned)});
}

void LateCopies::to_device(const Operation& operation, const VectorClock& clock, void* device,
                           const void* host, std::size_t bytes, std::shared_ptr<const void> pinned) {
  copies_.push_back(
      {operation, clock, true, device, host, pinned_bytes(host, bytes, clock), {}, std::move(pinned)});
}

void LateCopies::need(const ByteSet& device_bytes) {
  for (Copy& copy : copies_) {
    if (copy.to_device && !copy.read && ByteSet::interval(copy.to, copy.data.size()).overlaps(device_bytes))
      read(copy);
  }
}

void LateCopies::end_known() {
  const VectorClock& host = Timeline::instance().host();
  std::deque<Copy> remaining;
  for (Copy& copy : copies_) {
    if (host.at(copy.operation.stream_index) < copy.operation.number) {
      remaining.push_back(std::move(copy));
    } else if (copy.to_device) {
      if (!copy.read) read(copy);
      compare(copy, copy.data, bytes_at(copy.from, copy.data.size()), "changed the pinned source of");
    } else {
      compare(copy, copy.before, bytes_at(copy.to, copy.data.size()), "wrote to the pinned target of");
      std::memcpy(copy.to, copy.data.data(), copy.data.size());
    }
  }
  copies_ = std::move(remaining);
}

void LateCopies::check_sources() {
  for (Copy& copy : copies_) {
    if (copy.to_device)
      compare(copy, copy.data, pinned_bytes(copy.from, copy.data.size(), copy.clock),
              "changed the pinned source of");
  }
}

std::vector<std::byte> LateCopies::pinned_bytes(const void* host, std::size_t bytes,
                                                const VectorClock& clock) const {
  std::vector<std::byte> result = bytes_at(host, bytes);
  const ByteSet wanted = ByteSet::interval(host, bytes);
  for (const Copy& copy : copies_) {
    const ByteSet written = ByteSet::interval(copy.to, copy.data.size());
    if (copy.to_device || clock.at(copy.operation.stream_index) < copy.operation.number ||
        !written.overlaps(wanted))
      continue;
    const std::uintptr_t from = std::max(written.begin, wanted.begin);
    const std::uintptr_t to = std::min(written.end(), wanted.end());
    std::memcpy(result.data() + (from - wanted.begin), copy.data.data() + (from - written.begin), to - from);
  }
  return result;
}

void LateCopies::read(Copy& copy) {
  copy.read = true;
  const std::vector<std::byte> now = pinned_bytes(copy.from, copy.data.size(), copy.clock);
  std::memcpy(copy.to, now.data(), now.size());
  compare(copy, copy.data, now, "changed the pinned source of");
}

void LateCopies::compare(Copy& copy, const std::vector<std::byte>& expected,
                         const std::vector<std::byte>& found, const char* what) {
  if (copy.reported || expected == found) return;
  copy.reported = true;
  OrderChecker::instance().record_race(std::string("the host ") + what + " " + to_text(copy.operation) +
                                       " before it knew that this had ended");
}

}  // namespace cxtrain::test
