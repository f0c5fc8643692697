#include "cxtrain/reduce/power_sgd.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/comm/host_communicator.h"
#include "cxtrain/state/stateful.h"
#include "support/catch.h"
#include "support/mpi_world.h"
#include "support/state_difference.h"

namespace cxtrain {
namespace {

/// Parameters of several shapes: two matrices that are approximated, one of four dimensions and one of other
/// strides among them; a small matrix, a vector and a frozen parameter.
struct ApproximatedModel {
  std::vector<NamedTensor> parameters;

  ApproximatedModel() {
    add("wide", at::zeros({40, 60}));
    add("kernels", at::zeros({24, 3, 5, 5}));
    add("transposed", at::zeros({60, 40}).t());
    add("small", at::zeros({3, 4}));
    add("vector", at::zeros({17}));
    add("frozen", at::zeros({50, 50}));
    parameters.back().tensor.set_requires_grad(false);
  }
  void add(const std::string& name, at::Tensor tensor) {
    parameters.push_back({name, tensor.set_requires_grad(true)});
  }
  at::Tensor& gradient(std::size_t i) { return parameters[i].tensor.mutable_grad(); }
  /// Different ones on each rank, and in each step.
  void draw_gradients(int step) {
    at::manual_seed(static_cast<std::uint64_t>(100 * step + test_world().rank()));
    for (std::size_t i = 0; i < 5; ++i)
      gradient(i) = at::randn(parameters[i].tensor.sizes())
                        .as_strided_(parameters[i].tensor.sizes(), parameters[i].tensor.strides());
  }
};

at::Tensor mean_over_ranks(at::Tensor tensor, Communicator& communicator) {
  tensor = tensor.contiguous().clone();
  communicator.all_reduce(tensor, ReduceOp::avg);
  communicator.join();
  return tensor;
}

bool same_on_all_ranks(const at::Tensor& tensor, Communicator& communicator) {
  const at::Tensor largest = tensor.contiguous().clone(), smallest = largest.clone();
  communicator.all_reduce(largest, ReduceOp::max);
  communicator.all_reduce(smallest, ReduceOp::min);
  communicator.join();
  return largest.equal(smallest);
}

StateDict saved_by(const PowerSgd& power_sgd) {
  StateDict state;
  power_sgd.save(state);
  return state.clone();
}

TEST_CASE("columns become orthogonal and of length 1, and zeros stay zeros") {
  const at::Tensor matrix = at::randn({50, 4});
  matrix.narrow(1, 2, 1).zero_();
  make_orthogonal(matrix);
  const at::Tensor products = matrix.t().mm(matrix), expected = at::eye(4);
  expected[2][2] = 0;
  CHECK(products.sub(expected).abs().max().item<double>() < 1e-5);
}

TEST_CASE("what a step lacks of the mean gradient is in the mean error, and comes with the next steps") {
  HostCommunicator communicator(test_world());
  ApproximatedModel model;
  const std::int64_t rank = GENERATE(1, 3);
  PowerSgd power_sgd({.rank = rank}, {.seed = 7});
  power_sgd.prepare(model.parameters, communicator);
  for (int step = 0; step < 4; ++step) {
    CAPTURE(rank, step);
    model.draw_gradients(step);
    const StateDict before = saved_by(power_sgd);
    std::vector<at::Tensor> exact;
    for (std::size_t i = 0; i < 5; ++i) exact.push_back(mean_over_ranks(model.gradient(i), communicator));
    power_sgd.average();
    const StateDict after = saved_by(power_sgd);
    for (std::size_t i = 0; i < 5; ++i) {
      const auto& [name, tensor] = model.parameters[i];
      CAPTURE(name);
      const at::Tensor& found = model.gradient(i);
      CHECK(found.strides() == tensor.strides());
      CHECK(same_on_all_ranks(found, communicator));
      const bool approximated = after.section(kMeanOfRanks).has(name);
      CHECK(approximated == (i < 3));
      if (!approximated) {
        CHECK(found.sub(exact[i]).abs().max().item<double>() < 1e-6);
        continue;
      }
      CHECK(found.sub(exact[i]).abs().max().item<double>() > 0.1);
      const auto mean_error = [&, name = name, sizes = tensor.sizes()](const StateDict& state) {
        return mean_over_ranks(state.section(kMeanOfRanks).tensor(name), communicator).view(sizes);
      };
      const at::Tensor kept = found.add(mean_error(after)), given = exact[i].add(mean_error(before));
      CHECK(kept.sub(given).abs().max().item<double>() < 1e-4);
    }
    CHECK_FALSE(model.gradient(5).defined());
  }
}

TEST_CASE("a mean gradient of low rank is found to rounding, once Q has turned to it") {
  HostCommunicator communicator(test_world());
  std::vector<NamedTensor> parameters{{"matrix", at::zeros({40, 60}).set_requires_grad(true)}};
  PowerSgd power_sgd({.rank = 2}, {.seed = 7});
  power_sgd.prepare(parameters, communicator);
  at::manual_seed(3);
  const at::Tensor mean = at::mm(at::randn({40, 2}), at::randn({2, 60}));
  const int rank = test_world().rank(), ranks = test_world().size();
  for (int step = 0; step < 3; ++step) {
    parameters[0].tensor.mutable_grad() = mean.mul(2.0 * (rank + 1) / (ranks + 1));
    power_sgd.average();
    CHECK(parameters[0].tensor.grad().sub(mean).abs().max().item<double>() < 1e-4);
  }
}

TEST_CASE(
    "a gradient of zeros does not end the approximation, and a step without gradients changes nothing") {
  HostCommunicator communicator(test_world());
  std::vector<NamedTensor> parameters{{"matrix", at::zeros({40, 60}).set_requires_grad(true)}};
  PowerSgd power_sgd({.rank = 1}, {.seed = 7});
  power_sgd.prepare(parameters, communicator);
  at::Tensor& gradient = parameters[0].tensor.mutable_grad();
  gradient = at::zeros({40, 60});
  power_sgd.average();
  CHECK(gradient.abs().max().item<double>() == 0);
  gradient = at::ones({40, 60});
  power_sgd.average();
  CHECK(gradient.sub(1).abs().max().item<double>() < 1e-4);

  at::manual_seed(static_cast<std::uint64_t>(test_world().rank()));
  gradient = at::randn({40, 60});
  power_sgd.average();
  const StateDict before = saved_by(power_sgd);
  gradient.reset();
  power_sgd.average();
  CHECK(gradient.abs().max().item<double>() == 0);
  CHECK(test::first_difference(before, saved_by(power_sgd)).empty());
}

TEST_CASE("a parameter that is frozen for some steps keeps its error, and so does a state that is loaded") {
  HostCommunicator communicator(test_world());
  ApproximatedModel model, other_model;
  PowerSgd power_sgd({.rank = 2}, {.seed = 7});
  power_sgd.prepare(model.parameters, communicator);
  model.draw_gradients(0);
  power_sgd.average();
  const at::Tensor error = saved_by(power_sgd).section(kMeanOfRanks).tensor("wide");
  model.parameters[0].tensor.set_requires_grad(false);
  model.gradient(0).reset();
  model.draw_gradients(1);
  model.gradient(0).reset();
  power_sgd.average();
  CHECK(saved_by(power_sgd).section(kMeanOfRanks).tensor("wide").equal(error));

  PowerSgd resumed({.rank = 2}, {.seed = 8});
  resumed.prepare(other_model.parameters, communicator);
  other_model.parameters[0].tensor.set_requires_grad(false);
  resumed.load(saved_by(power_sgd));
  for (ApproximatedModel* each : {&model, &other_model}) {
    each->parameters[0].tensor.set_requires_grad(true);
    each->draw_gradients(2);
  }
  power_sgd.average();
  resumed.average();
  for (std::size_t i = 0; i < 5; ++i) CHECK(model.gradient(i).equal(other_model.gradient(i)));
  CHECK(test::first_difference(saved_by(power_sgd), saved_by(resumed)).empty());
}

}  // namespace
}  // namespace cxtrain
