#include "cxtrain/checkpoint/staging.h"

#include <ATen/Functions.h>
#include <sys/mman.h>

#include <cstring>
#include <new>

#include "cxtrain/base/align.h"
#include "cxtrain/base/stream_copy.h"
#include "cxtrain/checkpoint/safetensors.h"

namespace cxtrain {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Files begin at pages, from which they are written fastest.
constexpr std::size_t kPage = 4096;

/// A tensor's values in row-major order.
void copy_values(const at::Tensor& tensor, char* to) {
  if (tensor.nbytes() == 0) return;
  if (tensor.is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
    stream_copy(to, static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
    return;
  }
  at::Tensor target = at::from_blob(to, tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()));
  target.copy_(tensor.detach());
}

}  // namespace

Staging::~Staging() {
  if (memory_ != nullptr) munmap(memory_, capacity_);
}

void Staging::reserve(std::size_t bytes) {
  if (bytes <= capacity_) return;
  if (memory_ != nullptr) munmap(memory_, capacity_);
  memory_ = nullptr;
  capacity_ = 0;
  const std::size_t size = round_up(bytes, kHugePage);
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, size, MADV_HUGEPAGE);  // refused by some systems, which is no harm
  memory_ = static_cast<char*>(memory);
  capacity_ = size;
}

void Staging::take(std::span<const PlannedFile> files) {
  struct Layout {
    std::string header;
    std::vector<SafetensorsEntry> entries;
    std::size_t at = 0, bytes = 0;
  };
  std::vector<Layout> layouts;
  std::size_t total = 0;
  for (const PlannedFile& file : files) {
    Layout layout;
    layout.entries = lay_out(file.tensors);
    layout.header = safetensors_header(layout.entries, file.metadata);
    layout.at = total;
    layout.bytes = layout.header.size() + (layout.entries.empty() ? 0 : layout.entries.back().end);
    total = round_up(total + layout.bytes, kPage);
    layouts.push_back(std::move(layout));
  }
  files_.clear();
  reserve(total);
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const Layout& layout = layouts[i];
    char* const begin = memory_ + layout.at;
    std::memcpy(begin, layout.header.data(), layout.header.size());
    for (std::size_t tensor = 0; tensor < layout.entries.size(); ++tensor)
      copy_values(files[i].tensors[tensor].tensor,
                  begin + layout.header.size() + layout.entries[tensor].begin);
    files_.push_back({files[i].name, {begin, layout.bytes}});
  }
}

}  // namespace cxtrain
