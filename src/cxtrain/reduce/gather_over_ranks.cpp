#include "cxtrain/reduce/gather_over_ranks.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/error.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/reduce/saved_communicator.h"

namespace cxtrain {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct RowsOfRank {
  std::int64_t rows = 0;
  std::string row;  ///< shape and dtype of a row

  void fields(auto&& field) { CXTRAIN_EACH(field, rows, row); }
};

/// The rows of each rank. Throws if the ranks' tensors cannot be joined.
std::vector<std::int64_t> rows_of_ranks(const at::Tensor& own, World& world) {
  const std::string row = c10::str(own.sizes().slice(1), " of ", own.scalar_type());
  const std::vector<RowsOfRank> ranks = gather_values(world, RowsOfRank{own.size(0), row});
  std::vector<std::int64_t> rows;
  for (const RowsOfRank& rank : ranks) {
    if (rank.row != ranks[0].row) {
      throw TrainingError("all_gather: rank 0 has rows of shape " + ranks[0].row + ", and rank " +
                          std::to_string(rows.size()) + " has rows of shape " + rank.row +
                          "; only the sizes of dimension 0 may differ");
    }
    rows.push_back(rank.rows);
  }
  return rows;
}

std::vector<std::int64_t> with_rows(const at::Tensor& tensor, std::int64_t rows) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes.front() = rows;
  return sizes;
}

at::Tensor gather(const at::Tensor& own, const std::vector<std::int64_t>& rows, Communicator& communicator) {
  const std::int64_t most = *std::ranges::max_element(rows);
  const auto ranks = static_cast<std::int64_t>(rows.size());
  const at::Tensor all = at::empty(with_rows(own, ranks * most), own.options().requires_grad(false));
  const at::Tensor place = all.narrow(0, communicator.rank() * most, most);
  place.narrow(0, 0, own.size(0)).copy_(own);
  communicator.all_gather(all, place);
  communicator.join();
  if (std::ranges::all_of(rows, [&](std::int64_t some) { return some == most; })) return all;
  std::vector<at::Tensor> parts;
  for (std::size_t r = 0; r < rows.size(); ++r)
    parts.push_back(all.narrow(0, static_cast<std::int64_t>(r) * most, rows[r]));
  return at::cat(parts);
}

struct GatherOverRanks : torch::autograd::Function<GatherOverRanks> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own,
                            const std::vector<std::int64_t>& rows, Communicator* communicator) {
    context->saved_data["first_row"] =
        std::accumulate(rows.begin(), rows.begin() + communicator->rank(), std::int64_t{0});
    context->saved_data["rows"] = own.size(0);
    save(*context, communicator);
    return gather(own, rows, *communicator);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    Communicator& communicator = saved_communicator(*context);
    const at::Tensor sum = gradients[0].clone(at::MemoryFormat::Contiguous);
    communicator.all_reduce(sum, ReduceOp::sum);
    // On a host the sum is finished, and a join would wait for gradients that other ranks may send later.
    if (!sum.is_cpu()) communicator.join();
    return {
        sum.narrow(0, context->saved_data["first_row"].toInt(), context->saved_data["rows"].toInt()), {}, {}};
  }
};

}  // namespace

at::Tensor gather_over_ranks(const at::Tensor& own, World& world, Communicator& communicator,
                             bool gradients) {
  const std::vector<std::int64_t> rows = rows_of_ranks(own, world);
  if (gradients) return GatherOverRanks::apply(own, rows, &communicator);
  const at::NoGradGuard no_grad;
  return gather(own, rows, communicator);
}

}  // namespace cxtrain
