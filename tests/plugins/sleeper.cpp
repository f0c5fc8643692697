#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "constant_data.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/chain_module.h"

/// A chain whose blocks sleep in place of computing: what a schedule waits for can be told from what ranks of
/// a busy machine take from each other.
namespace {

using namespace cxtrain;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void sleep_ms(double milliseconds) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
}

/// Multiplies by the first number of a parameter; each gradient sleeps for itself.
struct SlowProduct : torch::autograd::Function<SlowProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            double milliseconds) {
    context->save_for_backward({input, weight});
    context->saved_data["ms"] = milliseconds;
    sleep_ms(milliseconds);
    return input * weight[0];
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const double milliseconds = context->saved_data["ms"].toDouble();
    variable_list found(3);
    if (context->needs_input_grad(0)) {
      sleep_ms(milliseconds);
      found[0] = gradients[0] * saved[1][0];
    }
    if (context->needs_input_grad(1)) {
      sleep_ms(milliseconds);
      found[1] = at::zeros_like(saved[1]);
      found[1][0] = (gradients[0] * saved[0]).sum();
    }
    return found;
  }
};

struct SleeperBlockImpl : torch::nn::Module {
  SleeperBlockImpl(double milliseconds, std::int64_t weights)
      : ms(milliseconds), weight(register_parameter("weight", at::ones({weights}))) {}
  at::Tensor forward(const at::Tensor& input) { return SlowProduct::apply(input, weight, ms * longer); }
  double ms, longer = 1;
  at::Tensor weight;
};
TORCH_MODULE(SleeperBlock);

class Sleeper : public ChainModule {
 public:
  struct Args {
    std::int64_t blocks = 16;
    double ms = 5;
    std::int64_t numbers = 1;
    double jitter = 0;

    void fields(auto&& field) {
      field("blocks", blocks, "of the chain", Range::at_least(1));
      field("ms", ms, "of each of the three passes of a block", Range::at_least(0));
      field("numbers", numbers, "numbers in the parameter of a block", Range::at_least(1));
      field("jitter", jitter, "by which steps differ in length: the deviation of their logarithm",
            Range::at_least(0));
    }
  };
  explicit Sleeper(const Args& args) : jitter_(args.jitter), random_(static_cast<unsigned>(getpid())) {
    for (std::int64_t i = 0; i < args.blocks; ++i) {
      blocks_.emplace_back(args.ms, args.numbers);
      add_block("blocks." + std::to_string(i), blocks_.back());
    }
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    std::normal_distribution<double> normal;
    const double longer = std::exp(jitter_ * normal(random_));
    for (SleeperBlock& block : blocks_) block->longer = longer;
    return run(batch).tensor().mean();
  }
  Carry inputs(const Batch& batch) override { return Carry(batch[0].detach().requires_grad_()); }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.001}; }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<test::ConstantData>(); }

 private:
  std::vector<SleeperBlock> blocks_;
  double jitter_;
  std::mt19937 random_;  ///< differs between ranks
};

}  // namespace

CXTRAIN_PLUGIN("model sleeper",
               [](Registry& registry) { registry.add<Sleeper>("sleeper", "sleeps in place of computing"); })
