#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cxtrain::test {

/// A copy of this memory.
inline std::vector<std::byte> bytes_at(const void* memory, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(memory);
  return {begin, begin + bytes};
}

/// Bytes at equal distances: `count` runs of `length` bytes each, which begin `stride` apart. One run is an
/// interval of memory; a column of a matrix has a run for each row.
struct ByteSet {
  std::uintptr_t begin = 0;
  std::uintptr_t length = 0;
  std::uintptr_t stride = 0;
  std::uintptr_t count = 1;

  static ByteSet interval(const void* begin, std::size_t bytes) {
    return {reinterpret_cast<std::uintptr_t>(begin), bytes, bytes, 1};
  }

  bool operator==(const ByteSet&) const = default;
  bool is_interval() const { return count == 1; }
  /// Behind the last byte.
  std::uintptr_t end() const { return begin + (count - 1) * stride + length; }
  bool overlaps(const ByteSet& other) const;

 private:
  bool meets(std::uintptr_t from, std::uintptr_t to) const;
};

/// The bytes of a tensor's elements. Exact for dense tensors, slices of them and what is cut from these along
/// two dimensions; of stranger layouts the whole reach.
std::vector<ByteSet> bytes_of(const at::Tensor& tensor);

}  // namespace cxtrain::test
