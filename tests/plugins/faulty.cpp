#include <ATen/ops/ones.h>
#include <sys/resource.h>
#include <torch/nn/modules/linear.h>

#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "constant_data.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/chain_module.h"

/// A model that goes wrong on one rank at one step, in the way that its argument says.
namespace {

using namespace cxtrain;

class Faulty : public Module {
 public:
  struct Args {
    std::string fault = "throw";
    std::int64_t rank = 1, step = 5;

    void fields(auto&& field) {
      field("fault", fault, "what happens",
            one_of("throw", "freeze", "loop", "crash", "terminate", "flip", "slow", "memory", "spike",
                   "start", "no_loss", "none"));
      field("rank", rank, "0, or another for all others; slow, flip, memory and spike: this one");
      field("step", step, "at which step");
    }
  };
  explicit Faulty(const Args& args) : fault_(args.fault), rank_(args.rank), step_(args.step) {
    layer_ = register_module("layer", torch::nn::Linear(4, 1));
  }
  void on_fit_start() override {
    if (fault_ == "start" && mine()) throw std::runtime_error("no luck at the start");
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    if (fault_ == "slow")
      std::this_thread::sleep_for(std::chrono::milliseconds(global_rank() == rank_ ? 60 : 40));
    if (global_step() == step_ && fault_ == "flip" && global_rank() == rank_) flip_a_bit();
    if (global_step() == step_ && mine()) {
      if (fault_ == "no_loss") return {};
      if (fault_ == "throw") throw std::runtime_error("the well is dry");
      if (fault_ == "crash") *nowhere_ = 1;
      if (fault_ == "terminate") std::thread([] { throw std::runtime_error("the thread is torn"); }).join();
      for (volatile bool forever = fault_ == "loop"; forever;) {
      }
      if (fault_ == "freeze") std::this_thread::sleep_for(std::chrono::hours(1));
    }
    if (fault_ == "memory" && global_step() == step_ && global_rank() == rank_) use_up_memory();
    const at::Tensor loss = layer_->forward(batch[0]).mean();
    return fault_ == "spike" && global_step() >= step_ && global_rank() == rank_ ? loss + 10'000 : loss;
  }
  Optimizers configure_optimizers() override { return {}; }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<test::ConstantData>(); }

 private:
  /// As the system does it to a process that may have no more.
  static void use_up_memory() {
    constexpr rlim_t kEnough = rlim_t{1} << 30;
    const rlimit limit{kEnough, kEnough};
    if (setrlimit(RLIMIT_DATA, &limit) != 0) throw std::runtime_error("setrlimit");
    std::vector<at::Tensor> blocks;
    for (;;) blocks.push_back(at::ones({1 << 22}));  // 16 MiB
  }
  bool mine() { return is_global_zero() == (rank_ == 0); }

  /// The lowest but eleven of the mantissa of one weight.
  void flip_a_bit() {
    const at::NoGradGuard no_grad;
    layer_->weight.detach().view(at::kInt)[0][2].bitwise_xor_(1 << 11);
  }

  volatile int* nowhere_ = nullptr;
  std::string fault_;
  std::int64_t rank_, step_;
  torch::nn::Linear layer_{nullptr};
};

/// A linear layer that throws while `throws` is set.
class RiskyImpl : public torch::nn::Module {
 public:
  RiskyImpl(std::int64_t in, std::int64_t out) {
    layer = register_module("layer", torch::nn::Linear(in, out));
  }
  at::Tensor forward(const at::Tensor& input) {
    if (throws) throw std::runtime_error("the well is dry");
    return layer->forward(input);
  }
  torch::nn::Linear layer{nullptr};
  bool throws = false;
};
TORCH_MODULE(Risky);

/// A chain with a fault: its blocks throw on one rank in step 3, each rank draws other parameters, or
/// `configure_optimizers` freezes the first block.
class FaultyChain : public ChainModule {
 public:
  struct Args {
    std::string fault = "throw";
    std::int64_t rank = 1;

    void fields(auto&& field) {
      field("fault", fault, "a block throws, ranks draw different values, or the first block is frozen late",
            one_of("throw", "dice", "freeze"));
      field("rank", rank, "the rank whose blocks throw");
    }
  };
  explicit FaultyChain(const Args& args) : args_(args) {
    Risky first(4, 8);
    if (args.fault == "dice") {
      const at::NoGradGuard no_grad;
      first->layer->weight.fill_(std::uniform_real_distribution<double>()(device_));
    }
    risky_ = {add_block("first", first), add_block("last", Risky(8, 1))};
  }
  void on_train_batch_start(const Batch&, std::int64_t) override {
    for (Risky& block : risky_)
      block->throws = args_.fault == "throw" && global_rank() == args_.rank && global_step() == 3;
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return run_blocks(batch).tensor().mean();
  }
  Optimizers configure_optimizers() override {
    if (args_.fault == "freeze") {
      for (at::Tensor& parameter : risky_.front()->parameters()) parameter.set_requires_grad(false);
    }
    return {};
  }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<test::ConstantData>(); }

 private:
  Args args_;
  std::random_device device_;
  std::vector<Risky> risky_;
};

}  // namespace

CXTRAIN_PLUGIN("model faulty", [](Registry& registry) {
  registry.add<Faulty>("faulty", "a model with a fault on one rank");
  registry.add<FaultyChain>("faulty_chain",
                            "a chain with a fault in a block, its constructor or configure_optimizers");
})
