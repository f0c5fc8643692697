#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <torch/nn/modules/linear.h>

#include "constant_data.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/module.h"

/// A classifier of four classes that at some step has a label of a fifth on one rank. A CPU throws there; a
/// GPU goes on, says so at some later call, and is of no use to the process after that.
namespace {

using namespace cxtrain;

class WrongLabel : public Module {
 public:
  struct Args {
    std::int64_t rank = 0, step = 5;

    void fields(auto&& field) {
      field("rank", rank, "on which rank");
      field("step", step, "at which step");
    }
  };
  explicit WrongLabel(const Args& args) : rank_(args.rank), step_(args.step) {
    layer_ = register_module("layer", torch::nn::Linear(4, 4));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor scores = layer_->forward(batch[0]);
    const bool wrong = global_step() == step_ && global_rank() == rank_;
    return at::cross_entropy_loss(scores, at::full({scores.size(0)}, wrong ? 4 : 1,
                                                   scores.options().dtype(at::kLong).requires_grad(false)));
  }
  Optimizers configure_optimizers() override { return {}; }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<test::ConstantData>(); }

 private:
  std::int64_t rank_, step_;
  torch::nn::Linear layer_{nullptr};
};

}  // namespace

CXTRAIN_PLUGIN("model wrong_label", [](Registry& registry) {
  registry.add<WrongLabel>("wrong_label", "has a label out of range");
})
