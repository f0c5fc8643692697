#include "support/fake_device/byte_set.h"

#include <algorithm>

namespace cxtrain::test {

bool ByteSet::meets(std::uintptr_t from, std::uintptr_t to) const {
  if (to <= begin || from >= end()) return false;
  // The first run that ends behind `from`.
  const std::uintptr_t skipped = from < begin + length ? 0 : (from - begin - length) / stride + 1;
  return skipped < count && begin + skipped * stride < to;
}

bool ByteSet::overlaps(const ByteSet& other) const {
  if (end() <= other.begin || other.end() <= begin) return false;
  const ByteSet& few = count <= other.count ? *this : other;
  const ByteSet& many = count <= other.count ? other : *this;
  for (std::uintptr_t run = 0; run < few.count; ++run) {
    const std::uintptr_t from = few.begin + run * few.stride;
    if (many.meets(from, from + few.length)) return true;
  }
  return false;
}

std::vector<ByteSet> bytes_of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0 || !tensor.has_storage()) return {};
  struct Dimension {
    std::uintptr_t size, stride;
  };
  const auto item = static_cast<std::uintptr_t>(tensor.element_size());
  std::vector<Dimension> dimensions;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) > 1 && tensor.stride(i) != 0)
      dimensions.push_back({static_cast<std::uintptr_t>(tensor.size(i)),
                            static_cast<std::uintptr_t>(tensor.stride(i)) * item});
  }
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  std::uintptr_t reach = item;
  for (const Dimension& d : dimensions) reach += (d.size - 1) * d.stride;

  ByteSet set = ByteSet::interval(tensor.const_data_ptr(), item);
  std::size_t next = 0;
  while (next < dimensions.size() && dimensions[next].stride == set.length)
    set.length *= dimensions[next++].size;
  set.stride = set.length;
  if (next == dimensions.size()) return {set};
  set.count = dimensions[next].size;
  set.stride = dimensions[next++].stride;
  while (next < dimensions.size() && dimensions[next].stride == set.stride * set.count)
    set.count *= dimensions[next++].size;
  if (next == dimensions.size()) return {set};
  // One more dimension: the same comb again and again.
  const Dimension last = dimensions[next++];
  if (next != dimensions.size() || last.size > 4096) return {ByteSet{set.begin, reach, reach, 1}};
  std::vector<ByteSet> sets;
  for (std::uintptr_t i = 0; i < last.size; ++i) {
    sets.push_back(set);
    set.begin += last.stride;
  }
  return sets;
}

}  // namespace cxtrain::test
