#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "support/fake_device/byte_set.h"
#include "support/fake_device/timeline.h"

namespace cxtrain::test {

/// Bytes that an operation reads or writes.
struct Access {
  std::vector<ByteSet> bytes;
  bool writes = false;
  std::string tensor;  ///< for messages: "float32 [3, 4]"
};

std::string describe(const at::Tensor& tensor);
Access reads(const at::Tensor& tensor);
Access writes(const at::Tensor& tensor);

/// Remembers of all memory that devices reach who read and who wrote which bytes, and finds two operations on
/// the same bytes, at least one of which writes, that nothing has put into an order.
class OrderChecker {
 public:
  static OrderChecker& instance();

  /// Memory that is there from now on. `stream`: whose later operations may get the memory after it has been
  /// freed; none for memory of the host.
  void add_memory(const void* begin, std::size_t bytes, const FakeStream* stream);
  /// The memory is free. A stream may still be using it: that is recorded as a race.
  void remove_memory(const void* begin);
  /// The stream may use this memory until it is free, and the allocator knows it.
  void record_stream(const void* inside, const FakeStream& stream);

  /// The stream that the memory of a device belongs to, where all these bytes are of one allocation; else
  /// null.
  const FakeStream* owner(const ByteSet& bytes);

  /// Throws FakeDeviceRace, and notes nothing, where an access is not ordered after an earlier one. `clock`:
  /// what came before the operation.
  void note(const Operation& operation, const VectorClock& clock, std::span<const Access> accesses);
  /// That memory which did not exist before was written.
  void note_result(const Operation& operation, const VectorClock& clock, const at::Tensor& tensor);
  /// For what cannot throw.
  void record_race(std::string text) { races_.push_back(std::move(text)); }

  std::vector<std::string> races() const { return races_; }
  void forget_races() { races_.clear(); }

 private:
  struct Entry {
    ByteSet bytes;
    bool writes;
    std::shared_ptr<const Operation> operation;
    std::shared_ptr<const std::string> tensor;
  };
  struct Memory {
    std::size_t bytes = 0;
    const FakeStream* stream = nullptr;
    std::set<std::size_t> recorded_streams;
    std::vector<Entry> entries;
  };

  Memory* find(std::uintptr_t address);
  static const Entry* conflict(const Memory& memory, const ByteSet& bytes, bool writes,
                               const Operation& operation, const VectorClock& clock);
  static void add(Memory& memory, Entry entry);

  std::map<std::uintptr_t, Memory> memory_;
  std::vector<std::string> races_;
};

}  // namespace cxtrain::test
