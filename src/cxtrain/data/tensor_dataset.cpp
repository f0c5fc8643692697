#include "cxtrain/data/tensor_dataset.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/index_select.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

bool consecutive(std::span<const std::int64_t> indices) {
  return std::adjacent_find(indices.begin(), indices.end(), [](std::int64_t one, std::int64_t next) {
           return next != one + 1;
         }) == indices.end();
}

}  // namespace

at::Tensor gather_rows(const at::Tensor& source, std::span<const std::int64_t> indices, bool pin_memory) {
  // Samples have no gradient, so the autograd layer of the dispatcher has nothing to do here.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto count = static_cast<std::int64_t>(indices.size());
  if (consecutive(indices)) {
    const at::Tensor rows = source.narrow(0, indices.empty() ? 0 : indices.front(), count);
    return pin_memory ? rows.pin_memory() : rows;
  }
  // The indices are only read; from_blob has no const form.
  const at::Tensor index =
      at::from_blob(const_cast<std::int64_t*>(indices.data()), {count}, at::TensorOptions().dtype(at::kLong));
  if (!pin_memory) return at::index_select(source, 0, index);
  std::vector<std::int64_t> shape = source.sizes().vec();
  shape[0] = count;
  at::Tensor rows = at::empty(shape, source.options().pinned_memory(true));
  at::index_select_out(rows, source, 0, index);
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
