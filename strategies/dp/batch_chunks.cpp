#include "batch_chunks.h"

#include <algorithm>
#include <string>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

/// Samples `begin` to `begin` + `count` of an object of a batch of `all` samples.
std::shared_ptr<BatchObject> narrowed(const Batch::Object& object, std::int64_t begin, std::int64_t count,
                                      std::int64_t all) {
  if (count == all) return object.value;
  std::shared_ptr<BatchObject> part = object.value->narrow(begin, count);
  if (part != nullptr && part->size() == count) return part;
  throw DataError(class_of(*object.value) + "::narrow(" + std::to_string(begin) + ", " +
                  std::to_string(count) + ") returns " +
                  (part == nullptr ? "null" : "an object of " + std::to_string(part->size()) + " samples"));
}

}  // namespace

bool has_samples(const at::Tensor& tensor, const Batch& batch) {
  return tensor.defined() && tensor.dim() > 0 && tensor.size(0) == batch.size;
}

std::vector<Batch> chunk_batch(const Batch& batch, std::size_t parts) {
  std::vector<Batch> chunks;
  const auto count = static_cast<std::int64_t>(parts);
  const std::int64_t rows = (batch.size + count - 1) / count;
  for (std::int64_t begin = 0; begin < batch.size; begin += rows) {
    Batch& chunk = chunks.emplace_back();
    chunk.size = std::min(rows, batch.size - begin);
    chunk.names = batch.names;
    if (!batch.indices.empty()) {
      const auto first = batch.indices.begin() + static_cast<std::ptrdiff_t>(begin);
      chunk.indices.assign(first, first + static_cast<std::ptrdiff_t>(chunk.size));
    }
    for (const at::Tensor& tensor : batch.tensors) {
      chunk.tensors.push_back(has_samples(tensor, batch) ? tensor.narrow(0, begin, chunk.size) : tensor);
    }
    for (const Batch::Object& object : batch.objects) {
      chunk.objects.push_back({narrowed(object, begin, chunk.size, batch.size), object.name});
    }
  }
  return chunks;
}

}  // namespace cxtrain
