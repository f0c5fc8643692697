#include <torch/nn/modules/linear.h>

#include "cxtrain/trainer/chain_module.h"
#include "strategies/zero/gathered_model.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

/// Blocks of these widths; the last block may have the first block's weight, too.
struct Widths : ChainModule {
  struct TiedImpl : torch::nn::Module {
    explicit TiedImpl(const at::Tensor& tied) { weight = register_parameter("weight", tied); }
    at::Tensor forward(const at::Tensor& input) { return input.matmul(weight); }
    at::Tensor weight;
  };
  TORCH_MODULE(Tied);

  Widths(const std::vector<std::int64_t>& widths, bool tied) {
    torch::nn::Linear first{nullptr};
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const auto options = torch::nn::LinearOptions(widths[i], 1024).bias(false);
      const auto block = add_block(std::to_string(i), torch::nn::Linear(options));
      if (first.is_empty()) first = block;
    }
    if (tied) add_block("tied", Tied(first->weight));
  }
  StepOutput training_step(const Batch&, std::int64_t) override { return StepOutput{}; }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }
};

/// The plan for rows of one parameter each, the last block's first.
SlotPlan plan_for(Widths& model) {
  const auto parameters = model.all_parameters();
  const auto rows = divided_rows(parameters, /*ranks=*/2, /*row_bytes=*/1);
  REQUIRE(rows.size() == parameters.size());
  return plan_slots(rows, parameters, *trainable(model).blocks());
}

TEST_CASE("rows of blocks that are side by side have different slots, and others share") {
  Widths model({8, 8, 8, 8, 8}, /*tied=*/false);
  const SlotPlan plan = plan_for(model);
  CHECK(plan.largest.size() == 2);
  for (std::size_t row = 0; row + 1 < plan.slot_of_row.size(); ++row)
    CHECK(plan.slot_of_row[row] != plan.slot_of_row[row + 1]);
}

TEST_CASE("a large row does not make the slots of small rows large") {
  Widths model({512, 16, 16, 16, 16, 16}, /*tied=*/false);
  const SlotPlan plan = plan_for(model);
  const auto rows = divided_rows(model.all_parameters(), 2, 1);
  std::int64_t elements = 0;
  for (const std::size_t row : plan.largest) elements += rows[row].elements();
  CHECK(plan.largest.size() == 2);
  CHECK(elements == (512 + 16) * 1024);
  CHECK(slot_bytes(trainable(model), *trainable(model).blocks(), 2, 1) == elements * 4);
}

TEST_CASE("a row of several blocks is in the way of the neighbours of all") {
  Widths model({8, 8, 8, 8}, /*tied=*/true);
  const SlotPlan plan = plan_for(model);
  // Rows 3 to 0 are those of blocks 0 to 3; block 4 has row 3, too.
  const std::size_t tied = plan.slot_of_row[3];
  CHECK(plan.slot_of_row[2] != tied);
  CHECK(plan.slot_of_row[0] != tied);
}

}  // namespace
}  // namespace cxtrain
