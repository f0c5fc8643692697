#include "cxtrain/reduce/sync_batch_norm.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <ATen/record_function.h>

#include <mutex>
#include <numeric>
#include <set>

#include "fixture.h"
#include "support/fake_device/fake_nccl_accelerator.h"
#include "support/host_communicator.h"
#include "support/mpi_world.h"

/// Synchronised batch norm by CUDA's kernels for it, between ranks with a device each.
namespace cxtrain {
namespace {

/// Of a batch norm; all of one dtype or of several.
struct Arguments {
  at::Tensor input, weight, bias, running_mean, running_var;
  at::Tensor gradient;  ///< of the output
  double momentum = 0.1;

  void change(const std::function<at::Tensor(const at::Tensor&)>& of_samples,
              const std::function<at::Tensor(const at::Tensor&)>& of_channels) {
    for (at::Tensor* tensor : {&input, &gradient}) *tensor = of_samples(*tensor).detach();
    for (at::Tensor* tensor : {&weight, &bias, &running_mean, &running_var}) {
      if (tensor->defined()) *tensor = of_channels(*tensor).detach().clone();
    }
  }
};

/// Forward and backward in training mode; returns the output.
at::Tensor step(const Arguments& arguments) {
  for (const at::Tensor* tensor : {&arguments.input, &arguments.weight, &arguments.bias}) {
    if (tensor->defined()) tensor->requires_grad_();
  }
  const at::Tensor output =
      at::batch_norm(arguments.input, arguments.weight, arguments.bias, arguments.running_mean,
                     arguments.running_var, /*training=*/true, arguments.momentum, 1e-5, false);
  output.backward(arguments.gradient);
  return output.detach();
}

/// Ranks with a device each.
struct Ranks : test::TwoFakeDevices {
  /// This rank's rows, where rank r has `samples[r]`.
  at::Tensor shard(const at::Tensor& whole, const std::vector<std::int64_t>& samples) const {
    const auto own = samples.begin() + between->rank();
    return whole.narrow(0, std::accumulate(samples.begin(), own, std::int64_t{0}), *own);
  }
  at::Tensor sum_over_ranks(const at::Tensor& tensor) {
    const at::Tensor sum = tensor.cpu().to(at::kDouble);
    host.all_reduce(sum, ReduceOp::sum);
    return sum;
  }
  bool same_bits_everywhere(const at::Tensor& tensor) {
    const at::Tensor own = tensor.cpu(), first = own.clone();
    host.broadcast(first, 0);
    return at::equal(first, own);
  }

  HostCommunicator host = test::host_communicator();
  test::FakeNcclAccelerator accelerator{test::kFakeDevices, host};
  std::unique_ptr<Communicator> between = accelerator.connect(test_world(), device);
  SyncBatchNorm sync{*between};
};

/// What a rank's batch norm may look like.
struct Setting {
  std::vector<std::int64_t> sample_shape;
  at::ScalarType input = at::kFloat, weights = at::kFloat, running = at::kFloat;
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  bool has_weight = true, has_bias = true, has_running = true;
  double momentum = 0.1;
  int empty_rank = -1;
};

/// Rank r has r + 2 samples, or none.
std::vector<std::int64_t> samples_of(const Setting& setting) {
  std::vector<std::int64_t> samples;
  for (int rank = 0; rank < test_world().size(); ++rank)
    samples.push_back(rank == setting.empty_rank ? 0 : rank + 2);
  return samples;
}

/// Those of the whole batch, on the CPU.
Arguments whole_batch(const Setting& setting) {
  at::manual_seed(5);
  const std::vector<std::int64_t> samples = samples_of(setting);
  std::vector<std::int64_t> shape{std::accumulate(samples.begin(), samples.end(), std::int64_t{0})};
  shape.insert(shape.end(), setting.sample_shape.begin(), setting.sample_shape.end());
  Arguments all;
  // Far from zero, where a difference of squares would lose its digits.
  all.input = at::randn(shape).mul(2).add(30).to(setting.input);
  all.gradient = at::randn(shape).to(setting.input);
  const at::Tensor values = at::rand({4, shape[1]}).add(0.5);
  if (setting.has_weight) all.weight = values[0].to(setting.weights);
  if (setting.has_bias) all.bias = values[1].to(setting.weights);
  if (setting.has_running) all.running_mean = values[2].to(setting.running);
  if (setting.has_running) all.running_var = values[3].to(setting.running);
  all.momentum = setting.momentum;
  return all;
}

void compare_with_whole(Ranks& ranks, const Setting& setting) {
  const std::vector<std::int64_t> samples = samples_of(setting);
  Arguments whole = whole_batch(setting), own = whole;
  const auto precise = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
  whole.change(precise, precise);
  const auto here = [&](const at::Tensor& tensor) { return tensor.to(ranks.device); };
  own.change(
      [&](const at::Tensor& all) { return here(ranks.shard(all, samples)).contiguous(setting.format); },
      here);

  const at::Tensor expected = step(whole);
  at::Tensor output;
  std::vector<std::string> reads;
  {
    const SyncBatchNorm::Scope scope(ranks.sync);
    const test::HostReads counted;
    output = step(own);
    reads = counted.names();
  }
  CHECK(reads == std::vector<std::string>{});
  const auto close = [](const at::Tensor& found, const at::Tensor& wanted, at::ScalarType rounded_to) {
    const double tolerance = rounded_to == at::kDouble ? 1e-9 : rounded_to == at::kFloat ? 1e-4 : 0.02;
    return at::allclose(found.cpu().to(at::kDouble), wanted, tolerance, tolerance);
  };
  CHECK(output.scalar_type() == setting.input);
  CHECK(close(output, ranks.shard(expected, samples), setting.input));
  CHECK(close(own.input.grad(), ranks.shard(whole.input.grad(), samples), setting.input));
  for (const auto& [mine, all] : {std::pair(own.weight, whole.weight), std::pair(own.bias, whole.bias)}) {
    if (!mine.defined()) continue;
    CHECK(mine.grad().scalar_type() == setting.weights);
    CHECK(close(ranks.sum_over_ranks(mine.grad()), all.grad(), setting.weights));
  }
  for (const auto& [mine, all] :
       {std::pair(own.running_mean, whole.running_mean), std::pair(own.running_var, whole.running_var)}) {
    if (!mine.defined()) continue;
    // What stands in float32 is as good as float32, also where the input has 16 bits.
    CHECK(close(mine, all, setting.running));
    CHECK(ranks.same_bits_everywhere(mine));
  }
}

TEST_CASE_METHOD(Ranks, "batch norm over ranks with a device each equals batch norm over the whole batch") {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    CAPTURE(dtype);
    for (const std::vector<std::int64_t>& shape :
         {std::vector<std::int64_t>{3}, {3, 5}, {2, 4, 3}, {2, 2, 3, 2}}) {
      CAPTURE(shape.size());
      compare_with_whole(*this, {.sample_shape = shape, .input = dtype, .weights = dtype, .running = dtype});
    }
  }
  // A cumulative average's factor in its fourth step.
  compare_with_whole(*this, {.sample_shape = {3, 5}, .momentum = 0.25});
}

TEST_CASE_METHOD(Ranks, "batch norm over ranks with a device each takes channels that lie last in memory") {
  compare_with_whole(*this, {.sample_shape = {2, 4, 3}, .format = at::MemoryFormat::ChannelsLast});
  compare_with_whole(*this, {.sample_shape = {2, 2, 3, 2}, .format = at::MemoryFormat::ChannelsLast3d});
  // The gradient may come in another order than the input.
  Arguments mixed = whole_batch({.sample_shape = {2, 4, 3}}), plain = mixed;
  mixed.change([&](const at::Tensor& t) { return t.to(device); },
               [&](const at::Tensor& t) { return t.to(device); });
  plain.change([&](const at::Tensor& t) { return t.to(device); },
               [&](const at::Tensor& t) { return t.to(device); });
  mixed.gradient = mixed.gradient.contiguous(at::MemoryFormat::ChannelsLast);
  const SyncBatchNorm::Scope scope(sync);
  step(mixed);
  step(plain);
  CHECK(at::allclose(mixed.input.grad().cpu(), plain.input.grad().cpu(), 1e-5, 1e-6));
}

TEST_CASE_METHOD(Ranks, "batch norm over ranks with a device each may lack weights and running statistics") {
  compare_with_whole(*this, {.sample_shape = {3, 4}, .has_weight = false, .has_bias = false});
  compare_with_whole(*this, {.sample_shape = {3, 4}, .has_weight = false});
  compare_with_whole(*this, {.sample_shape = {3, 4}, .has_bias = false});
  compare_with_whole(*this, {.sample_shape = {3, 4}, .has_running = false});
}

TEST_CASE_METHOD(Ranks, "batch norm over ranks with a device each takes inputs and weights of 16 bits") {
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    CAPTURE(dtype);
    for (const at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const std::vector<std::int64_t> shape{2, 4, 3};
      compare_with_whole(*this, {.sample_shape = shape, .input = dtype, .format = format});
      compare_with_whole(*this, {.sample_shape = shape, .input = dtype, .weights = dtype, .format = format});
      compare_with_whole(
          *this,
          {.sample_shape = shape, .input = dtype, .weights = dtype, .running = dtype, .format = format});
    }
    // More values than a 16-bit number can tell.
    compare_with_whole(*this, {.sample_shape = {1, 40000}, .input = dtype, .has_running = false});
    compare_with_whole(*this, {.sample_shape = {1, 40000}, .input = dtype, .running = dtype});
  }
}

TEST_CASE_METHOD(Ranks, "a rank without samples takes part in batch norm, and the host need not know") {
  const int ranks = test_world().size();
  if (ranks == 1) return test::skip_for_ranks("somebody has to have samples");
  for (int rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    compare_with_whole(*this, {.sample_shape = {3, 4}, .empty_rank = rank});
    compare_with_whole(*this, {.sample_shape = {3}, .has_weight = false, .empty_rank = rank});
    compare_with_whole(*this, {.sample_shape = {2, 4, 3}, .input = at::kHalf, .empty_rank = rank});
  }
}

/// Which of ATen's operators are called, while it exists, on all threads; not what these call in turn.
class Launches {
 public:
  Launches() {
    names_.clear();
    handle_ =
        at::addGlobalCallback(at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}));
  }
  ~Launches() { at::removeCallback(handle_); }
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;
  std::vector<std::string> names() const {
    const std::lock_guard lock(mutex_);
    return names_;
  }

 private:
  /// What launches nothing itself: views, memory, and operators that are composed of others.
  static bool is_free(const std::string& name) {
    static const std::set<std::string> names{
        "aten::select",     "aten::narrow",        "aten::slice",      "aten::as_strided",
        "aten::view",       "aten::expand",        "aten::detach",     "aten::empty",
        "aten::empty_like", "aten::empty_strided", "aten::batch_norm", "aten::to",
        "aten::stack",      "aten::contiguous",    "aten::unsqueeze",  "aten::requires_grad_"};
    return names.contains(name) || !name.starts_with("aten::");  // autograd's nodes
  }
  struct Context : at::ObserverContext {
    bool counts = false;
  };
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    auto context = std::make_unique<Context>();
    context->counts = !is_free(function.name());
    if (context->counts && depth_++ == 0) {
      const std::lock_guard lock(mutex_);
      names_.emplace_back(function.name());
    }
    return context;
  }
  static void end(const at::RecordFunction&, at::ObserverContext* context) {
    if (static_cast<Context*>(context)->counts) --depth_;
  }

  at::CallbackHandle handle_;
  static inline std::mutex mutex_;
  static inline std::vector<std::string> names_;
  static inline thread_local int depth_ = 0;
};

TEST_CASE_METHOD(Ranks, "batch norm over ranks with a device each is few kernels and two messages") {
  Arguments arguments = whole_batch({.sample_shape = {3, 4}});
  const auto here = [&](const at::Tensor& tensor) { return tensor.to(device); };
  arguments.change(here, here);
  const SyncBatchNorm::Scope scope(sync);
  const std::size_t before = accelerator.nccl.calls().size();
  const Launches launched;
  step(arguments);
  const std::vector<std::string> names = launched.names();
  CAPTURE(names);
  // Statistics, two for a row of the message, joined, counts, normalised; sums, message, gradient.
  CHECK(names.size() <= 9);
  const std::vector<std::string> calls = accelerator.nccl.calls();
  CHECK(std::vector<std::string>(calls.begin() + static_cast<std::ptrdiff_t>(before), calls.end()) ==
        std::vector<std::string>{"all_gather 28 uint8", "all_reduce 6 float32"});
}

}  // namespace
}  // namespace cxtrain
