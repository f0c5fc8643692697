#include "strategies/zero/block_walk.h"

#include <ATen/ops/ones_like.h>
#include <torch/nn/modules/linear.h>

#include <set>

#include "cxtrain/cluster/world.h"
#include "cxtrain/trainer/chain_module.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/fake_communicator.h"

namespace cxtrain {
namespace {

constexpr int kRanks = 2;
constexpr std::size_t kBlocks = 4;

/// Block i has 1,024 x 2 (i + 1) parameters in a row of their own: a message has i + 1 pages.
struct Staircase : ChainModule {
  Staircase() {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(kBlocks); ++i)
      add_block(std::to_string(i),
                torch::nn::Linear(torch::nn::LinearOptions(2 * (i + 1), 1024).bias(false)));
  }
  StepOutput training_step(const Batch&, std::int64_t) override { return StepOutput{}; }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }
};

/// A rank that steps through the blocks, and what the rank does in order: F0 is the forward pass of block 0,
/// B3 the backward pass of block 3, g0 the gather of block 0, s3 the scatter of the gradients of block 3, and
/// w a wait for all messages.
class Walked {
 public:
  explicit Walked(const std::set<std::string>& frozen = {}) {
    for (NamedTensor& parameter : model_.all_parameters())
      if (frozen.contains(parameter.name)) parameter.tensor.set_requires_grad(false);
    gathered_.emplace(trainable(model_), *trainable(model_).blocks(), communicator_, /*row_bytes=*/1);
    walk_.emplace(*trainable(model_).blocks(), *gathered_);
    parameters_ = model_.all_parameters();
    std::vector<DividedRow> rows;
    for (PlacedRow& placed : gathered_->rows_of(parameters_)) rows.push_back(std::move(placed.row));
    gradients_.emplace(parameters_, std::move(rows), /*shard=*/0, communicator_, world_,
                       ShardReducerOptions{.overlap = false});
  }

  /// The model's step runs these blocks forward, and backward of these.
  std::vector<std::string> step(const std::vector<std::size_t>& forward,
                                const std::vector<std::size_t>& backward) {
    communicator_.calls.clear();
    gradients_->zero_gradients();
    walk_->begin_forward();
    BlockObserver* const passes = trainable(model_).blocks()->observer();
    for (const std::size_t block : forward) {
      passes->before_forward(block);
      communicator_.note("F" + std::to_string(block));
      passes->after_forward(block);
    }
    walk_->end_forward();
    gradients_->begin_backward(/*completes_step=*/true);
    walk_->begin_backward(*gradients_);
    for (const std::size_t block : backward) {
      passes->before_backward(block);
      communicator_.note("B" + std::to_string(block));
      at::Tensor& parameter = parameters_[block].tensor;
      parameter.mutable_grad() = at::ones_like(parameter);
      passes->after_backward(block);
    }
    walk_->end_backward();
    gradients_->end_backward();
    gradients_->finish();
    return readable();
  }

 private:
  std::vector<std::string> readable() const {
    std::vector<std::string> result;
    for (const std::string& call : communicator_.calls) {
      const std::size_t space = call.rfind(' ');
      if (call.starts_with("all_gather")) {
        result.push_back("g" + std::to_string(std::stoi(call.substr(space)) / 1024 - 1));
      } else if (call.starts_with("reduce_scatter")) {
        result.push_back("s" + std::to_string(std::stoi(call.substr(space)) / 1024 - 1));
      } else {
        result.push_back(call == "join" ? "w" : call);
      }
    }
    return result;
  }

  Staircase model_;
  SoloWorld world_;
  test::FakeCommunicator communicator_{kRanks};
  std::optional<GatheredModel> gathered_;
  std::optional<BlockWalk> walk_;
  std::vector<NamedTensor> parameters_;
  std::optional<ShardReducer> gradients_;
};

std::vector<std::string> messages_of(std::vector<std::string> calls) {
  std::erase_if(calls, [](const std::string& call) { return call[0] != 'g' && call[0] != 's'; });
  return calls;
}

using Calls = std::vector<std::string>;

TEST_CASE("a step gathers each block before the pass ahead of it, and the last two blocks once") {
  Walked walked;
  const Calls expected{"g0", "w",  "g1", "F0", "w", "g2", "F1", "w",  "g3", "F2", "w",  "F3",  // forward
                       "B3", "s3", "g1", "B2", "w", "s2", "g0", "B1", "w",  "s1", "B0", "s0", "w"};
  CHECK(walked.step({0, 1, 2, 3}, {3, 2, 1, 0}) == expected);
  CHECK(walked.step({0, 1, 2, 3}, {3, 2, 1, 0}) == expected);
}

TEST_CASE("a rank that skips blocks, backward or the whole batch has the messages of the others") {
  const Calls all = messages_of(Walked().step({0, 1, 2, 3}, {3, 2, 1, 0}));
  CHECK(messages_of(Walked().step({}, {})) == all);
  CHECK(messages_of(Walked().step({0, 1, 2, 3}, {})) == all);
  CHECK(messages_of(Walked().step({0, 1, 2, 3}, {3})) == all);
  CHECK(messages_of(Walked().step({0, 2}, {2, 0})) == all);
}

TEST_CASE("backward gathers no block before the first that is trained") {
  const Calls messages = messages_of(Walked({"0.weight", "1.weight"}).step({0, 1, 2, 3}, {3, 2}));
  CHECK(messages == Calls{"g0", "g1", "g2", "g3", "s3", "s2"});
}

TEST_CASE("a block that runs twice, or out of order, is an error with a cure") {
  Walked walked;
  CHECK_THROWS_WITH(walked.step({0, 1, 1}, {}), test::contains("twice") && test::contains("add_block"));
  CHECK_THROWS_WITH(Walked().step({0, 2, 1}, {}), test::contains("twice") && test::contains("add_block"));
}

}  // namespace
}  // namespace cxtrain
