#include "support/fake_device/order_checker.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <sstream>

#include "support/fake_device/fake_device.h"

namespace cxtrain::test {

namespace {

/// Entries of one piece of memory beyond which those that nobody can race with any more are dropped.
constexpr std::size_t kManyEntries = 256;

Access access(const at::Tensor& tensor, bool writes) { return {bytes_of(tensor), writes, describe(tensor)}; }

}  // namespace

std::string describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << ' ' << tensor.sizes();
  return text.str();
}

Access reads(const at::Tensor& tensor) { return access(tensor, false); }
Access writes(const at::Tensor& tensor) { return access(tensor, true); }

OrderChecker& OrderChecker::instance() {
  static auto* const checker = new OrderChecker;
  return *checker;
}

void OrderChecker::add_memory(const void* begin, std::size_t bytes, const FakeStream* stream) {
  memory_[reinterpret_cast<std::uintptr_t>(begin)] = {bytes, stream, {}, {}};
}

void OrderChecker::remove_memory(const void* begin) {
  const auto found = memory_.find(reinterpret_cast<std::uintptr_t>(begin));
  if (found == memory_.end()) return;
  const Memory& memory = found->second;
  if (memory.stream != nullptr) {
    const Entry* latest = nullptr;
    for (const Entry& entry : memory.entries) {
      const std::size_t user = entry.operation->stream_index;
      const bool ordered = user == memory.stream->index ||
                           memory.stream->clock.at(user) >= entry.operation->number ||
                           Timeline::instance().host().at(user) >= entry.operation->number;
      if (!ordered && !memory.recorded_streams.contains(user)) latest = &entry;
    }
    if (latest != nullptr) {
      record_race("memory of " + memory.stream->stream.device().str() + ", stream " +
                  std::to_string(memory.stream->stream.id()) + ", was freed while " +
                  to_text(*latest->operation) + " may still use it (" + *latest->tensor +
                  "), and there was no record_stream");
    }
  }
  memory_.erase(found);
}

void OrderChecker::record_stream(const void* inside, const FakeStream& stream) {
  if (Memory* const memory = find(reinterpret_cast<std::uintptr_t>(inside)))
    memory->recorded_streams.insert(stream.index);
}

OrderChecker::Memory* OrderChecker::find(std::uintptr_t address) {
  auto above = memory_.upper_bound(address);
  if (above == memory_.begin()) return nullptr;
  --above;
  return address < above->first + above->second.bytes ? &above->second : nullptr;
}

const FakeStream* OrderChecker::owner(const ByteSet& bytes) {
  const Memory* const memory = find(bytes.begin);
  return memory != nullptr && find(bytes.end() - 1) == memory ? memory->stream : nullptr;
}

const OrderChecker::Entry* OrderChecker::conflict(const Memory& memory, const ByteSet& bytes, bool writes,
                                                  const Operation& operation, const VectorClock& clock) {
  for (const Entry& entry : memory.entries) {
    const Operation& earlier = *entry.operation;
    if (!(writes || entry.writes) || earlier.stream_index == operation.stream_index) continue;
    if (clock.at(earlier.stream_index) < earlier.number && entry.bytes.overlaps(bytes)) return &entry;
  }
  return nullptr;
}

void OrderChecker::add(Memory& memory, Entry entry) {
  // What comes after this entry comes after those that it stands for, too.
  std::vector<Entry> rest;
  std::erase_if(memory.entries, [&](Entry& old) {
    const bool replaced =
        entry.writes || (!old.writes && old.operation->stream_index == entry.operation->stream_index);
    if (!replaced) return false;
    if (old.bytes == entry.bytes) return true;
    if (!entry.bytes.is_interval() || !old.bytes.overlaps(entry.bytes)) return false;
    if (old.bytes.begin >= entry.bytes.begin && old.bytes.end() <= entry.bytes.end()) return true;
    if (!old.bytes.is_interval()) return false;
    if (old.bytes.end() > entry.bytes.end()) {
      rest.push_back(old);
      rest.back().bytes = {entry.bytes.end(), old.bytes.end() - entry.bytes.end(), 1, 1};
    }
    if (old.bytes.begin >= entry.bytes.begin) return true;
    old.bytes.length = entry.bytes.begin - old.bytes.begin;
    return false;
  });
  memory.entries.insert(memory.entries.end(), rest.begin(), rest.end());
  memory.entries.push_back(std::move(entry));
  if (memory.entries.size() > kManyEntries) {
    const VectorClock& host = Timeline::instance().host();
    std::erase_if(memory.entries, [&](const Entry& old) {
      return host.at(old.operation->stream_index) >= old.operation->number;
    });
  }
}

void OrderChecker::note(const Operation& operation, const VectorClock& clock,
                        std::span<const Access> accesses) {
  for (const Access& access : accesses) {
    for (const ByteSet& bytes : access.bytes) {
      const Memory* const memory = find(bytes.begin);
      if (memory == nullptr) continue;
      const Entry* const earlier = conflict(*memory, bytes, access.writes, operation, clock);
      if (earlier == nullptr) continue;
      const std::string text = to_text(operation) + (access.writes ? " writes " : " reads ") + access.tensor +
                               " while " + to_text(*earlier->operation) +
                               (earlier->writes ? " may still write it" : " may still read it") + " (" +
                               *earlier->tensor + "): no event or synchronisation orders them";
      record_race(text);
      throw FakeDeviceRace(text);
    }
  }
  const auto shared = std::make_shared<const Operation>(operation);
  for (const Access& access : accesses) {
    const auto tensor = std::make_shared<const std::string>(access.tensor);
    for (const ByteSet& bytes : access.bytes) {
      if (Memory* const memory = find(bytes.begin)) add(*memory, {bytes, access.writes, shared, tensor});
    }
  }
}

void OrderChecker::note_result(const Operation& operation, const VectorClock& clock,
                               const at::Tensor& tensor) {
  const Access access = writes(tensor);
  note(operation, clock, {&access, 1});
}

}  // namespace cxtrain::test
