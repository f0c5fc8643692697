#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <sched.h>
#include <torch/csrc/autograd/custom_function.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "cxtrain/data/tensor_dataset.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/chain_module.h"
#include "cxtrain/trainer/data_module.h"

/// A chain whose blocks sleep in place of computing: what a schedule waits for can be told from what ranks of
/// a busy machine take from each other.
namespace {

using namespace cxtrain;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Sleeps, or, if `busy`, uses a core for so long.
void sleep_ms(double milliseconds, bool busy = false) {
  if (!busy) return std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e3 * static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_nsec);
  };
  for (const double end = used() + milliseconds; used() < end;) {
  }
}

/// Multiplies by the first number of a parameter; each gradient sleeps for itself.
struct SlowProduct : torch::autograd::Function<SlowProduct> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            double milliseconds, bool busy) {
    context->save_for_backward({input, weight});
    context->saved_data["ms"] = milliseconds;
    context->saved_data["busy"] = busy;
    sleep_ms(milliseconds, busy);
    return input * weight[0];
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const double milliseconds = context->saved_data["ms"].toDouble();
    const bool busy = context->saved_data["busy"].toBool();
    variable_list found(4);
    if (context->needs_input_grad(0)) {
      sleep_ms(milliseconds, busy);
      found[0] = gradients[0] * saved[1][0];
    }
    if (context->needs_input_grad(1)) {
      sleep_ms(milliseconds, busy);
      found[1] = at::zeros_like(saved[1]);
      found[1][0] = (gradients[0] * saved[0]).sum();
    }
    return found;
  }
};

struct SleeperBlockImpl : torch::nn::Module {
  SleeperBlockImpl(double milliseconds, std::int64_t weights, bool busy_)
      : ms(milliseconds), busy(busy_), weight(register_parameter("weight", at::ones({weights}))) {}
  at::Tensor forward(const at::Tensor& input) { return SlowProduct::apply(input, weight, ms * longer, busy); }
  double ms, longer = 1;
  bool busy;
  at::Tensor weight;
};
TORCH_MODULE(SleeperBlock);

/// Samples that are all alike, in batches that take a while to be made.
class SlowSamples : public Dataset {
 public:
  explicit SlowSamples(double milliseconds) : milliseconds_(milliseconds), samples_({at::ones({4096, 4})}) {}
  std::int64_t size() const override { return samples_.size(); }
  void collate(std::span<const std::int64_t> indices, const SampleContext& context,
               Batch& batch) const override {
    sleep_ms(milliseconds_);
    samples_.collate(indices, context, batch);
  }

 private:
  double milliseconds_;
  TensorDataset samples_;
};

class SlowData : public DataModule {
 public:
  explicit SlowData(double milliseconds) : milliseconds_(milliseconds) {}
  void setup(Stage, const DataOptions& options) override { batch_size_ = options.batch_size.value_or(4); }
  Loaders train_dataloader() override {
    return {std::make_shared<SlowSamples>(milliseconds_), batch_size_, true};
  }

 private:
  double milliseconds_;
  std::int64_t batch_size_ = 4;
};

class Sleeper : public ChainModule {
 public:
  struct Args {
    std::int64_t blocks = 16;
    double ms = 5;
    std::int64_t numbers = 1;
    double jitter = 0;
    std::int64_t slow_rank = -1;
    double slow_ms = 0, data_ms = 0;
    std::int64_t samples = 0;
    bool busy = false;
    std::int64_t core = -1;

    void fields(auto&& field) {
      field("blocks", blocks, "of the chain", Range::at_least(1));
      field("ms", ms, "of each of the three passes of a block", Range::at_least(0));
      field("numbers", numbers, "numbers in the parameter of a block", Range::at_least(1));
      field("jitter", jitter, "by which steps differ in length: the deviation of their logarithm",
            Range::at_least(0));
      field("slow_rank", slow_rank, "the rank that sleeps longer in each step; -1: none",
            Range::at_least(-1));
      field("slow_ms", slow_ms, "by which this rank sleeps longer", Range::at_least(0));
      field("data_ms", data_ms, "that a batch takes to be made", Range::at_least(0));
      field("samples", samples,
            "samples for which a pass of a block takes `ms`; 0: a pass takes `ms` for any batch",
            Range::at_least(0));
      field("busy", busy, "use a core rather than sleep");
      field("core", core, "the core that each rank is bound to; -1: none", Range::at_least(-1));
    }
  };
  explicit Sleeper(const Args& args)
      : slow_rank_(args.slow_rank),
        slow_ms_(args.slow_ms),
        data_ms_(args.data_ms),
        samples_(args.samples),
        jitter_(args.jitter),
        random_(static_cast<unsigned>(getpid())) {
    if (args.core >= 0) {
      cpu_set_t cores;
      CPU_ZERO(&cores);
      CPU_SET(static_cast<std::size_t>(args.core), &cores);
      sched_setaffinity(0, sizeof cores, &cores);
    }
    for (std::int64_t i = 0; i < args.blocks; ++i) {
      blocks_.emplace_back(args.ms, args.numbers, args.busy);
      add_block("blocks." + std::to_string(i), blocks_.back());
    }
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    std::normal_distribution<double> normal;
    const double share = samples_ == 0 ? 1 : static_cast<double>(batch.size) / static_cast<double>(samples_);
    const double longer = share * std::exp(jitter_ * normal(random_));
    for (SleeperBlock& block : blocks_) block->longer = longer;
    if (global_rank() == slow_rank_) sleep_ms(slow_ms_);
    return run_blocks(batch).tensor().mean();
  }
  Carry inputs(const Batch& batch) override { return Carry(batch[0].detach().requires_grad_()); }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.001}; }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<SlowData>(data_ms_); }

 private:
  std::vector<SleeperBlock> blocks_;
  std::int64_t slow_rank_;
  double slow_ms_, data_ms_;
  std::int64_t samples_;
  double jitter_;
  std::mt19937 random_;  ///< differs between ranks
};

}  // namespace

CXTRAIN_PLUGIN("model sleeper",
               [](Registry& registry) { registry.add<Sleeper>("sleeper", "sleeps in place of computing"); })
