#include "cxtrain/checkpoint/staging.h"

#include <ATen/Functions.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "cxtrain/base/align.h"
#include "cxtrain/base/huge_pages.h"
#include "cxtrain/base/stream_copy.h"
#include "cxtrain/checkpoint/safetensors.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {
namespace {

/// Files begin at pages, from which they are written fastest.
constexpr std::size_t kPage = 4096;

/// Bytes [begin, begin + count) of a tensor's values in row-major order.
void copy_values(const at::Tensor& tensor, std::size_t begin, std::size_t count, char* to) {
  if (count == 0) return;
  if (is_on_host(tensor)) {
    stream_copy(to, host_bytes(tensor).data() + begin, count);
    return;
  }
  const auto item = static_cast<std::int64_t>(tensor.element_size());
  const std::int64_t elements = static_cast<std::int64_t>(count) / item;
  at::Tensor target = at::from_blob(to, {elements}, at::TensorOptions().dtype(tensor.scalar_type()));
  target.copy_(tensor.detach().reshape({-1}).narrow(0, static_cast<std::int64_t>(begin) / item, elements));
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

void Staging::begin(std::span<const PlannedFile> files, std::size_t most) {
  planned_.clear();
  files_.clear();
  file_ = part_ = offset_ = 0;
  std::size_t total = 0;
  for (const PlannedFile& file : files) {
    const std::vector<SafetensorsEntry> entries = lay_out(file.tensors);
    std::string header = safetensors_header(entries, file.metadata);
    total = round_up(total + header.size() + (entries.empty() ? 0 : entries.back().end), kPage);
    planned_.push_back({file.name, std::move(header), file.tensors});
  }
  round_ = most == 0 ? total : std::min(total, std::max(most, kLeast));
  reserve(round_);
}

void Staging::next() {
  files_.clear();
  std::size_t used = 0;
  while (has_next() && used < round_) {
    const Planned& file = planned_[file_];
    // A file is cut at pages, where an element ends, too (`sort_for_alignment`).
    const std::size_t bytes = copy_part(file, memory_ + used, (round_ - used) / kPage * kPage);
    if (bytes == 0) break;
    files_.push_back({file.name, {memory_ + used, bytes}});
    used = round_up(used + bytes, kPage);
    if (part_ <= file.tensors.size()) continue;
    ++file_;
    part_ = 0;
  }
  if (has_next()) return;
  planned_.clear();  // the tensors may be copies for this checkpoint
  file_ = 0;
}

std::size_t Staging::copy_part(const Planned& file, char* to, std::size_t room) {
  std::size_t copied = 0;
  while (part_ <= file.tensors.size()) {
    const at::Tensor* const tensor = part_ == 0 ? nullptr : &file.tensors[part_ - 1].tensor;
    const std::size_t left = (tensor == nullptr ? file.header.size() : tensor->nbytes()) - offset_;
    const std::size_t count = std::min(left, room - copied);
    if (tensor == nullptr) {
      std::memcpy(to + copied, file.header.data() + offset_, count);
    } else {
      copy_values(*tensor, offset_, count, to + copied);
    }
    copied += count;
    offset_ += count;
    if (count < left) return copied;
    ++part_;
    offset_ = 0;
  }
  return copied;
}

}  // namespace cxtrain
