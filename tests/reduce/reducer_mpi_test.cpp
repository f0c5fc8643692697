#include "cxtrain/reduce/reducer.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/variable.h>

#include <numeric>

#include "cxtrain/base/error.h"
#include "cxtrain/comm/host_communicator.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/host_communicator.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

/// Parameters of several sizes, one transposed; the loss is a sum of products with small whole numbers, so
/// that every gradient, sum and (for a power of two of ranks) mean is exact.
struct Model {
  std::vector<NamedTensor> parameters;

  Model() {
    for (const std::int64_t size : {1, 5, 300, 4000, 20000})
      add("p" + std::to_string(size), at::ones({size}));
    add("transposed", at::ones({7, 9}).t());
    add("frozen", at::ones({3}), false);
    add("empty", at::ones({0, 4}));
  }
  void add(const std::string& name, at::Tensor tensor, bool trained = true) {
    tensor.set_requires_grad(trained);
    parameters.push_back({name, std::move(tensor)});
  }
  /// One micro-batch: the gradient of every parameter is `value` (times 2 for the transposed one).
  void backward(double value, std::size_t skip = 99) {
    at::Tensor loss = at::zeros({});
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (i == skip) continue;
      loss = loss.add(parameters[i].tensor.mul(parameters[i].name == "transposed" ? 2 * value : value).sum());
    }
    loss.backward();
  }
  double gradient(std::size_t i) const { return parameters[i].tensor.grad().mean().item<double>(); }
};

double mean_of_ranks() { return (test_world().size() - 1) / 2.0; }

TEST_CASE("the reducer averages gradients over all ranks, for any bucket size, with and without overlap") {
  MpiWorld& world = test_world();
  const std::int64_t bucket = GENERATE(1, 1024, 1 << 20, 0);
  const bool overlap = GENERATE(false, true);
  CAPTURE(bucket, overlap);
  HostCommunicator communicator(world);
  Model model;
  Reducer reducer(model.parameters, communicator, world,
                  {.first_bucket_bytes = bucket, .bucket_bytes = bucket, .overlap = overlap});
  for (int step = 0; step < 4; ++step) {
    reducer.begin_backward(true);
    reducer.zero_gradients();
    model.backward(4.0 * world.rank() + step);
    reducer.finish();
    for (std::size_t i = 0; i < 6; ++i) {
      const double expected = (4 * mean_of_ranks() + step) * (i == 5 ? 2 : 1);
      CHECK(model.gradient(i) == Catch::Approx(expected).epsilon(1e-6));
      CHECK(model.parameters[i].tensor.grad().strides() == model.parameters[i].tensor.strides());
    }
    CHECK_FALSE(model.parameters[6].tensor.grad().defined());
  }
  // p20000 alone is 80 KB: a limit makes several buckets, none makes one.
  CHECK((reducer.bucket_count() > 1) == (bucket == 1 || bucket == 1024));
}

TEST_CASE("flags of any rank travel with the gradients of the last bucket, in any dtype, and change none") {
  MpiWorld& world = test_world();
  const auto dtype = GENERATE(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf);
  const int per_node = GENERATE(0, 1);
  const bool overlap = GENERATE(false, true);
  CAPTURE(dtype, per_node, overlap);
  HostCommunicator communicator = test::host_communicator(per_node);
  Model model;
  for (NamedTensor& parameter : model.parameters)
    parameter.tensor.set_data(parameter.tensor.detach().to(dtype));
  ReducerOptions options{.first_bucket_bytes = 1024, .bucket_bytes = 1024, .overlap = overlap};
  if (dtype == at::kFloat) options.wire_dtype = at::kHalf;
  Reducer reducer(model.parameters, communicator, world, options);
  constexpr std::uint64_t kOfAll = 1 << 15;
  const double value = dtype == at::kFloat ? 1e-12 : 1;  // far below the flags
  for (int step = 0; step < 4; ++step) {
    const std::uint64_t own = kOfAll | std::uint64_t{1} << ((world.rank() + step) % 8);
    reducer.begin_backward(true);
    reducer.zero_gradients();
    REQUIRE(reducer.carry(own));
    const bool skips = step == 2 && world.rank() == 0;  // flags travel without a backward, too
    if (!skips) model.backward(value);
    reducer.finish();
    std::uint64_t expected = kOfAll;
    for (int rank = 0; rank < world.size(); ++rank) expected |= std::uint64_t{1} << ((rank + step) % 8);
    CHECK(reducer.carried() == expected);
    if (step == 2) continue;
    for (std::size_t i = 0; i < 5; ++i) CHECK(model.gradient(i) == Catch::Approx(value).epsilon(1e-2));
  }
}

TEST_CASE("a reducer of some of the ranks carries no flags, whose votes are for all") {
  MpiWorld& world = test_world();
  if (world.size() == 1) return;
  HostCommunicator all(world);
  const std::unique_ptr<Communicator> alone = all.split(world.rank(), 0);
  Model model;
  Reducer reducer(model.parameters, *alone, world, {});
  CHECK_FALSE(reducer.carry(1));
}

TEST_CASE("an exchange is rehearsed in the messages of a step, and in few, and may be made anew afterwards") {
  MpiWorld& world = test_world();
  const int per_node = GENERATE(0, 1);
  const bool overlap = GENERATE(false, true), rounded = GENERATE(false, true);
  CAPTURE(per_node, overlap, rounded);
  HostCommunicator communicator = test::host_communicator(per_node);
  Model model;
  ReducerOptions options{.first_bucket_bytes = 1024, .bucket_bytes = 1024, .overlap = overlap};
  if (rounded) options.wire_dtype = at::kBFloat16;
  Reducer reducer(model.parameters, communicator, world, options);
  for (int step = 0; step < 3; ++step) {
    reducer.begin_backward(true);
    reducer.zero_gradients();
    model.backward(world.rank() + step);
    reducer.finish();
    CHECK(model.gradient(4) == Catch::Approx(mean_of_ranks() + step).epsilon(1e-2));
    const auto whole = reducer.rehearse(RehearsedMessages::of_steps);
    const auto few = reducer.rehearse(RehearsedMessages::few);
    REQUIRE(whole.has_value());
    REQUIRE(few.has_value());
    CHECK(whole->messages == static_cast<std::int64_t>(reducer.bucket_count()));
    CHECK(few->messages == 1);
    CHECK(few->bytes == whole->bytes);
    CHECK(few->last_bytes == few->bytes);
    CHECK(whole->last_bytes < whole->bytes);
    CHECK(whole->bytes / (rounded ? 2 : 4) == Catch::Approx(24'400).epsilon(0.02));
    CHECK(whole->waits_for_backward == (communicator.overlaps() && !overlap));
  }
  const bool over_tcp = communicator.overlaps();
  CHECK(communicator.connections().size() == static_cast<std::size_t>(over_tcp ? world.size() - 1 : 0));
  for (const ConnectionUse& each : communicator.connections()) {
    CHECK(each.node != world.rank());
    CHECK(each.bytes > 20'000);
  }
}

/// Whether it has memory of its own, rather than a place in a bucket.
bool lies_alone(const at::Tensor& gradient) { return gradient.storage().nbytes() == gradient.nbytes(); }

TEST_CASE("a large gradient is averaged where autograd made it, a small one in its bucket") {
  MpiWorld& world = test_world();
  HostCommunicator communicator(world);
  Model model;
  Reducer reducer(model.parameters, communicator, world, {});
  const void* last_place = nullptr;
  for (int step = 0; step < 3; ++step) {
    reducer.begin_backward(true);
    reducer.zero_gradients();
    model.backward(world.rank() + step);
    const at::Tensor& large = model.parameters[4].tensor.grad();
    CHECK(lies_alone(large) == (world.size() > 1));
    CHECK_FALSE(lies_alone(model.parameters[3].tensor.grad()));
    reducer.finish();
    CHECK(model.gradient(4) == Catch::Approx(mean_of_ranks() + step));
    // The memory of one step's gradient serves the next.
    if (step > 1 && world.size() > 1) CHECK(large.const_data_ptr() == last_place);
    last_place = large.const_data_ptr();
  }
}

TEST_CASE("gradients that autograd hands out as views of one tensor are told apart") {
  MpiWorld& world = test_world();
  HostCommunicator communicator(world);
  std::vector<NamedTensor> parameters;
  for (const char* name : {"a", "b", "c"}) {
    parameters.push_back({name, at::ones({20000}).set_requires_grad(true)});
  }
  Reducer reducer(parameters, communicator, world, {});
  for (int step = 0; step < 3; ++step) {
    reducer.begin_backward(true);
    reducer.zero_gradients();
    const at::Tensor sum = parameters[0].tensor.view({100, 200}).add(parameters[1].tensor.view({100, 200}));
    const at::Tensor all = at::cat({sum.flatten(), parameters[2].tensor});
    all.mul(world.rank() + step).sum().backward();
    reducer.finish();
    for (const NamedTensor& parameter : parameters) {
      const double expected = mean_of_ranks() + step;
      CHECK(parameter.tensor.grad().min().item<double>() == Catch::Approx(expected));
      CHECK(parameter.tensor.grad().max().item<double>() == Catch::Approx(expected));
    }
    parameters[0].tensor.grad().mul_(3);  // as clipping does, one after the other
    CHECK(parameters[1].tensor.grad()[0].item<double>() == Catch::Approx(mean_of_ranks() + step));
  }
}

TEST_CASE("a second gradient of a backward is refused once its bucket has been sent") {
  HostCommunicator communicator(test_world());
  Model model;
  Reducer reducer(model.parameters, communicator, test_world(),
                  {.first_bucket_bytes = 1000, .bucket_bytes = 20000, .overlap = true});
  const auto step = [&](int backwards) {
    reducer.zero_gradients();
    reducer.begin_backward(true);
    for (int i = 0; i < backwards; ++i) model.backward(1);
    reducer.finish();
  };
  step(1);  // shows the order
  CHECK_THAT(test::error_of<TrainingError>([&] { step(2); }), test::contains("second time"));
  reducer.finish();
}

TEST_CASE("micro-batches accumulate before the ranks exchange anything") {
  MpiWorld& world = test_world();
  HostCommunicator communicator(world);
  Model model;
  Reducer reducer(model.parameters, communicator, world, {.overlap = true});
  for (int step = 0; step < 3; ++step) {
    for (int micro = 0; micro < 4; ++micro) {
      reducer.begin_backward(micro == 3);
      if (micro == 0) reducer.zero_gradients();
      model.backward(world.rank() + micro);
    }
    reducer.finish();
    CHECK(model.gradient(2) == Catch::Approx(4 * mean_of_ranks() + 6));
    CHECK(model.gradient(4) == Catch::Approx(4 * mean_of_ranks() + 6));
  }
}

TEST_CASE("a parameter that one rank does not use counts as zero there") {
  MpiWorld& world = test_world();
  HostCommunicator communicator(world);
  Model model;
  Reducer reducer(model.parameters, communicator, world, {});
  for (int step = 0; step < 3; ++step) {
    reducer.begin_backward(true);
    reducer.zero_gradients();
    model.backward(6, world.rank() == 0 ? 1 : 99);
    reducer.finish();
    CHECK(model.gradient(1) == Catch::Approx(6.0 * (world.size() - 1) / world.size()));
    CHECK(model.gradient(0) == Catch::Approx(6));
  }
}

TEST_CASE("find_unused_parameters leaves what no rank used without a gradient, and keeps what one used") {
  MpiWorld& world = test_world();
  HostCommunicator communicator(world);
  Model model;
  Reducer reducer(model.parameters, communicator, world, {.find_unused_parameters = true});
  for (const bool everywhere : {true, false, true}) {
    reducer.begin_backward(true);
    reducer.zero_gradients();
    const bool skips = everywhere || world.rank() != 0;
    model.backward(2, skips ? 1 : 99);
    reducer.finish();
    CHECK(model.parameters[1].tensor.grad().defined() == !everywhere);
    if (!everywhere) CHECK(model.gradient(1) == Catch::Approx(2.0 / world.size()));
  }
}

TEST_CASE("gradients that travel rounded are averages to the wire's precision, the same on all ranks") {
  MpiWorld& world = test_world();
  const NetworkWay way = GENERATE(NetworkWay::tcp, NetworkWay::mpi);
  const int per_node = GENERATE(0, 1, 2);
  const bool crosses_nodes = per_node != 0 && world.size() > per_node;
  for (const at::ScalarType dtype : {at::kBFloat16, at::kHalf}) {
    HostCommunicator communicator = test::host_communicator(per_node, way);
    Model model;
    Reducer reducer(model.parameters, communicator, world, {.overlap = crosses_nodes, .wire_dtype = dtype});
    for (int step = 0; step < 3; ++step) {
      reducer.begin_backward(true);
      reducer.zero_gradients();
      model.backward(1.0 + 1.0 / 3 * world.rank() + step);
      reducer.finish();
      const double expected = 1.0 + mean_of_ranks() / 3 + step;
      CHECK(model.gradient(4) == Catch::Approx(expected).epsilon(dtype == at::kHalf ? 1e-3 : 8e-3));
      CHECK(model.parameters[4].tensor.grad().scalar_type() == at::kFloat);
      // What came over the wire has no more digits than it.
      const at::Tensor gradient = model.parameters[4].tensor.grad();
      const bool rounded = at::equal(gradient, gradient.to(dtype).to(at::kFloat));
      if (crosses_nodes) CHECK(rounded);
      // A node's memory is no wire.
      if (!crosses_nodes) CHECK(model.gradient(4) == Catch::Approx(expected).epsilon(1e-6));
      const std::int64_t bits = static_cast<std::int64_t>(model.gradient(4) * (1 << 20));
      CHECK(world.max(bits) == -world.max(-bits));
    }
    if (dtype != at::kHalf) continue;
    for (const double beyond : {1e7, 1e-12}) {  // what float16 alone has no number for
      reducer.begin_backward(true);
      reducer.zero_gradients();
      model.backward(beyond);
      reducer.finish();
      CHECK(model.gradient(4) == Catch::Approx(beyond).epsilon(1e-3));
    }
  }
}

TEST_CASE("gradients of different dtypes travel in buckets of their own") {
  MpiWorld& world = test_world();
  HostCommunicator communicator(world);
  std::vector<NamedTensor> parameters{{"float", at::ones({10})}, {"double", at::ones({20}, at::kDouble)}};
  for (auto& parameter : parameters) parameter.tensor.set_requires_grad(true);
  Reducer reducer(parameters, communicator, world, {});
  CHECK(reducer.bucket_count() == 2);
  reducer.begin_backward(true);
  parameters[0]
      .tensor.mul(world.rank())
      .sum()
      .add(parameters[1].tensor.mul(2 * world.rank()).sum())
      .backward();
  reducer.finish();
  CHECK(parameters[1].tensor.grad()[19].item<double>() == Catch::Approx(2 * mean_of_ranks()));
}

TEST_CASE("gradients after the reducer's end do not point into its memory") {
  MpiWorld& world = test_world();
  Model model;
  {
    HostCommunicator communicator(world);
    Reducer reducer(model.parameters, communicator, world, {});
    reducer.begin_backward(true);
    model.backward(1);
    reducer.finish();
  }
  CHECK_FALSE(model.parameters[0].tensor.grad().defined());
  model.backward(3);
  CHECK(model.gradient(0) == 3);
}

TEST_CASE("models that differ between ranks are refused, naming the parameter and the ranks") {
  MpiWorld& world = test_world();
  std::vector<NamedTensor> parameters{{"first", at::ones({2})}, {"second", at::ones({3})}};
  verify_same_parameters(parameters, world);
  if (world.size() == 1) return test::skip_for_ranks("there is nobody to differ from");
  const bool last = world.rank() == world.size() - 1;
  const std::string rank = "rank " + std::to_string(world.size() - 1);
  SECTION("another shape") {
    if (last) parameters[1].tensor = at::ones({4});
    CHECK_THROWS_WITH(verify_same_parameters(parameters, world), test::contains("second: Float [3]") &&
                                                                     test::contains("second: Float [4]") &&
                                                                     test::contains(rank));
  }
  SECTION("another dtype") {
    if (last) parameters[0].tensor = at::ones({2}, at::kDouble);
    CHECK_THROWS_WITH(verify_same_parameters(parameters, world), test::contains("first: Double [2]"));
  }
  SECTION("one parameter fewer") {
    if (last) parameters.pop_back();
    CHECK_THAT(test::error_of([&] { verify_same_parameters(parameters, world); }),
               test::contains(test::code(MessageCode::ranks_diverged)) && test::contains("no further"));
  }
  SECTION("a parameter frozen on one rank") {
    parameters[0].tensor.set_requires_grad(!last);
    CHECK_THROWS_WITH(verify_same_parameters(parameters, world), test::contains("frozen"));
  }
}

}  // namespace
}  // namespace cxtrain
