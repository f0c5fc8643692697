#include "cxtrain/data/tensor_dataset.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {
namespace {

bool consecutive(std::span<const std::int64_t> indices) {
  return std::adjacent_find(indices.begin(), indices.end(), [](std::int64_t one, std::int64_t next) {
           return next != one + 1;
         }) == indices.end();
}

/// Copies the rows of `source` at `indices` to `rows`. ATen's index_select takes several times as long for a
/// small batch.
void copy_rows(const at::Tensor& source, std::span<const std::int64_t> indices, const at::Tensor& rows) {
  const std::size_t bytes = rows.nbytes() / indices.size();
  if (bytes == 0) return;
  const char* const from = host_bytes(source).data();
  char* const to = static_cast<char*>(rows.mutable_data_ptr());
  constexpr std::int64_t kBytesOfThread = 128 << 10;
  const std::int64_t rows_of_thread =
      std::max<std::int64_t>(1, kBytesOfThread / static_cast<std::int64_t>(bytes));
  at::parallel_for(0, rows.size(0), rows_of_thread, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row)
      std::memcpy(to + row * bytes, from + static_cast<std::size_t>(indices[row]) * bytes, bytes);
  });
}

}  // namespace

at::Tensor gather_rows(const at::Tensor& source, std::span<const std::int64_t> indices, bool pin_memory) {
  // Samples have no gradient, so the autograd layer of the dispatcher has nothing to do here.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto count = static_cast<std::int64_t>(indices.size());
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= source.size(0))
      throw DataError("an index names row " + std::to_string(index) + " of a tensor with " +
                      std::to_string(source.size(0)) + " rows");
  }
  if (consecutive(indices)) {
    const at::Tensor rows = source.narrow(0, indices.empty() ? 0 : indices.front(), count);
    return pin_memory ? rows.pin_memory() : rows;
  }
  if (!is_on_host(source)) {
    const at::Tensor rows =
        source.index_select(0, at::tensor(at::IntArrayRef(indices.data(), indices.size())));
    return pin_memory ? rows.pin_memory() : rows;
  }
  c10::DimVector shape(source.sizes());
  shape[0] = count;
  const at::Tensor rows = at::empty(shape, source.options().pinned_memory(pin_memory));
  copy_rows(source, indices, rows);
  return rows;
}

TensorDataset::TensorDataset(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  if (tensors_.empty())
    throw DataError("a TensorDataset was asked for without a tensor; give it at least one");
  bool fits = true;
  for (const at::Tensor& tensor : tensors_) {
    fits = fits && tensor.defined() && tensor.dim() > 0 && tensor.device().is_cpu() &&
           tensor.size(0) == tensors_.front().size(0);
  }
  if (!fits) {
    const auto described = [](const at::Tensor& tensor) {
      return tensor.defined() ? c10::str(tensor.sizes(), " on ", tensor.device()) : "undefined";
    };
    throw DataError("a TensorDataset needs CPU tensors with equal sizes of dimension 0; found " +
                    joined(tensors_, " ", described));
  }
  for (at::Tensor& tensor : tensors_) tensor = tensor.detach().contiguous();
  size_ = tensors_.front().size(0);
}

void TensorDataset::collate(std::span<const std::int64_t> indices, const SampleContext& context,
                            Batch& batch) const {
  batch.tensors.resize(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    batch.tensors[i] = gather_rows(tensors_[i], indices, context.pin_memory);
}

}  // namespace cxtrain
