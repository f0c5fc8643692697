#include "cxtrain/data/dataset.h"

#include <c10/util/Type.h>

#include <string>
#include <typeinfo>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

[[noreturn]] void refuse_batch(const Dataset& dataset, std::int64_t samples, const std::string& what) {
  throw DataError("collate of " + c10::demangle(typeid(dataset).name()) + " was asked for " +
                  std::to_string(samples) + (samples == 1 ? " sample" : " samples") + ", and " + what);
}

}  // namespace

void collate_samples(const Dataset& dataset, std::span<const std::int64_t> indices,
                     const SampleContext& context, Batch& batch) {
  const auto samples = static_cast<std::int64_t>(indices.size());
  batch.size = samples;
  dataset.collate(indices, context, batch);
  batch.indices.assign(indices.begin(), indices.end());
  if (samples == 0) {
    batch.size = 0;
    return;
  }
  if (batch.size != samples)
    refuse_batch(dataset, samples,
                 "has set batch.size to " + std::to_string(batch.size) + "; leave it as it is");
  if (batch.tensors.empty()) refuse_batch(dataset, samples, "has made no tensor; fill batch.tensors");
  const at::Tensor& input = batch[0];
  if (!input.defined() || input.dim() == 0 || input.size(0) == samples) return;
  refuse_batch(dataset, samples,
               "dimension 0 of batch[0] is " + std::to_string(input.size(0)) + "; make it count the samples");
}

}  // namespace cxtrain
