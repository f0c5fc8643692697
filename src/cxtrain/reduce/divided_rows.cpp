#include "cxtrain/reduce/divided_rows.h"

#include <algorithm>

#include "cxtrain/base/huge_pages.h"
#include "cxtrain/reduce/buckets.h"
#include "cxtrain/tensor/hollow.h"

namespace cxtrain {
namespace {

constexpr std::int64_t kMaxRows = 64;

}  // namespace

bool can_be_divided(const at::Tensor& parameter) {
  return parameter.is_contiguous() ||
         is_hollow(parameter);  // only a tensor in row-major order becomes hollow
}

std::vector<DividedRow> divided_rows(const std::vector<NamedTensor>& parameters, int ranks,
                                     std::int64_t row_bytes) {
  std::vector<ParameterShape> shapes;
  std::vector<std::size_t> trained, frozen;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters[i].tensor;
    shapes.push_back(shape_of(tensor));
    if (!can_be_divided(tensor)) continue;
    (tensor.requires_grad() ? trained : frozen).push_back(i);
    bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  if (row_bytes > 0) row_bytes = std::max(row_bytes, bytes / kMaxRows);
  std::vector<DividedRow> rows;
  for (std::vector<std::size_t>* const order : {&trained, &frozen}) {
    if (row_bytes > 0) std::reverse(order->begin(), order->end());
    for (BucketPlan& bucket : plan_buckets(shapes, *order, row_bytes, row_bytes)) {
      if (bucket.numel == 0) continue;  // nothing can be mapped, and its parameters are left whole
      std::vector<std::int64_t> sizes;
      for (const std::size_t i : bucket.parameters) sizes.push_back(shapes[i].numel);
      const at::Tensor& first = parameters[bucket.parameters.front()].tensor;
      const auto page = static_cast<std::int64_t>(page_bytes() / first.itemsize());
      rows.push_back({std::move(bucket.parameters), plan_shards(sizes, ranks, page)});
    }
  }
  return rows;
}

}  // namespace cxtrain
