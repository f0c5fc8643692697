#include "cxtrain/strategy/keep_ranges.h"

#include <ATen/Functions.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <utility>

#include "cxtrain/tensor/hollow.h"
#include "cxtrain/trainer/chain_module.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

struct TiedImpl : torch::nn::Module {
  explicit TiedImpl(const at::Tensor& shared) { weight = register_parameter("weight", shared); }
  at::Tensor forward(const at::Tensor& x) { return x.matmul(weight.t()); }
  at::Tensor weight;
};
TORCH_MODULE(Tied);

/// Three linear layers, and a last block with the weights of the first.
struct LinearChain : ChainModule {
  LinearChain() {
    at::manual_seed(5);
    for (int i = 0; i < 3; ++i) {
      for (const torch::nn::Linear& layer : layers) in_memory.push_back(!is_hollow(layer->weight));
      layers.push_back(add_block("layers." + std::to_string(i), torch::nn::Linear(20, 20)));
    }
    add_block("last", Tied(layers.front()->weight));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return run_blocks(batch).tensor().sum();
  }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.1}; }

  std::vector<torch::nn::Linear> layers;
  std::vector<bool> in_memory;  ///< of the blocks before, when a block is added
};

const KeptRanges kSomeRanges{{{"layers.0.weight", {100, 300}},
                              {"layers.1.weight", {0, 0}},
                              {"layers.1.bias", {5, 9}},
                              {"layers.2.weight", {0, 400}}}};

TEST_CASE("a chain is built block by block, and a rank keeps its ranges of the values that it would have",
          "[strategy]") {
  LinearChain whole;
  std::vector<std::string> finished;
  KeepRanges keep(kSomeRanges, [&](torch::nn::Module& block, const std::string& prefix) {
    finished.push_back(prefix);
    if (prefix == "layers.0.") CHECK_FALSE(is_hollow(block.parameters()[0]));
  });
  LinearChain parts;
  CHECK(finished == std::vector<std::string>{"layers.0.", "layers.1.", "layers.2.", "last."});
  CHECK(whole.in_memory == std::vector<bool>{true, true, true});
  CHECK(parts.in_memory == std::vector<bool>{false, false, false});

  const std::vector<Piece> kept = std::exchange(trainable(parts).blocks()->kept(), {});
  REQUIRE(kept.size() == 3);  // layers.2.weight is whole
  CHECK(kept[0].values.equal(whole.layers[0]->weight.detach().view(-1).slice(0, 100, 300)));
  CHECK(kept[1].values.numel() == 0);
  CHECK(kept[2].values.equal(whole.layers[1]->bias.detach().slice(0, 5, 9)));
  CHECK(parts.layers[0]->bias.equal(whole.layers[0]->bias));
  CHECK(parts.layers[2]->weight.equal(whole.layers[2]->weight));
  CHECK(is_hollow(parts.parameters().back()));  // the weights of the first block
  CHECK(keep.left_alone(parts));
}

TEST_CASE("a model whose code uses parameters of blocks that it has added is found out", "[strategy]") {
  struct ReadsChain : LinearChain {
    ReadsChain() { add_block("reads", Tied(layers[0]->weight.detach() * 2)); }
  };
  struct FillsChain : LinearChain {
    FillsChain() { torch::nn::init::zeros_(layers[1]->bias); }
  };
  struct DrawsChain : LinearChain {
    DrawsChain() { torch::nn::init::normal_(layers[1]->weight); }
  };
  KeepRanges keep(kSomeRanges, [](torch::nn::Module&, const std::string&) {});
  SECTION("by reading") { CHECK_FALSE(keep.left_alone(ReadsChain())); }
  SECTION("by filling") { CHECK_FALSE(keep.left_alone(FillsChain())); }
  SECTION("by drawing") { CHECK_THROWS_AS(DrawsChain(), c10::Error); }
}

TEST_CASE("models that are built without ranges to keep are whole", "[strategy]") {
  {
    const KeepRanges keep(kSomeRanges, [](torch::nn::Module&, const std::string&) {});
  }
  LinearChain whole;
  CHECK(KeepRanges::current() == nullptr);
  CHECK(trainable(whole).blocks()->kept().empty());
  CHECK_FALSE(is_hollow(whole.layers[0]->weight));
}

}  // namespace
}  // namespace cxtrain
