#include <ATen/ops/ones.h>
#include <torch/csrc/autograd/custom_function.h>

#include <chrono>
#include <memory>
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

/// Multiplies by a parameter; each gradient sleeps for itself.
struct SlowProduct : torch::autograd::Function<SlowProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            double milliseconds) {
    context->save_for_backward({input, weight});
    context->saved_data["ms"] = milliseconds;
    sleep_ms(milliseconds);
    return input * weight;
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const double milliseconds = context->saved_data["ms"].toDouble();
    variable_list found(3);
    if (context->needs_input_grad(0)) {
      sleep_ms(milliseconds);
      found[0] = gradients[0] * saved[1];
    }
    if (context->needs_input_grad(1)) {
      sleep_ms(milliseconds);
      found[1] = (gradients[0] * saved[0]).sum().reshape({1});
    }
    return found;
  }
};

struct SleeperBlockImpl : torch::nn::Module {
  explicit SleeperBlockImpl(double milliseconds)
      : ms(milliseconds), weight(register_parameter("weight", at::ones({1}))) {}
  at::Tensor forward(const at::Tensor& input) { return SlowProduct::apply(input, weight, ms); }
  double ms;
  at::Tensor weight;
};
TORCH_MODULE(SleeperBlock);

class Sleeper : public ChainModule {
 public:
  struct Args {
    std::int64_t blocks = 16;
    double ms = 5;

    void fields(auto&& field) {
      field("blocks", blocks, "of the chain", Range::at_least(1));
      field("ms", ms, "of each of the three passes of a block", Range::at_least(0));
    }
  };
  explicit Sleeper(const Args& args) {
    for (std::int64_t i = 0; i < args.blocks; ++i)
      add_block("blocks." + std::to_string(i), SleeperBlock(args.ms));
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override { return run(batch).tensor().mean(); }
  Carry inputs(const Batch& batch) override { return Carry(batch[0].detach().requires_grad_()); }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.001}; }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<test::ConstantData>(); }
};

}  // namespace

CXTRAIN_PLUGIN("model sleeper",
               [](Registry& registry) { registry.add<Sleeper>("sleeper", "sleeps in place of computing"); })
