#include "cxtrain/strategy/parameter_store.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include <limits>

#include "cxtrain/precision/policy.h"
#include "support/catch.h"
#include "support/host_communicator.h"

namespace cxtrain {
namespace {

LocalGradients nothing({});

/// The third is not in row-major order, the last is frozen.
std::vector<NamedTensor> parameters() {
  at::manual_seed(5);
  std::vector<NamedTensor> made;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{3}, {300, 50}, {6, 4, 5, 5}, {1000}, {0}, {7, 300}, {400}}) {
    at::Tensor tensor = at::rand(shape, shape.size() == 1 ? at::kDouble : at::kFloat);
    if (shape.size() == 4) tensor = tensor.contiguous(at::MemoryFormat::ChannelsLast);
    made.push_back({"p" + std::to_string(made.size()), tensor.requires_grad_(made.size() != 6)});
  }
  return made;
}

std::vector<at::Tensor> values(const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> result;
  for (const auto& [name, tensor] : parameters) result.push_back(tensor.detach().clone());
  return result;
}

bool all_equal(const std::vector<NamedTensor>& parameters, const std::vector<at::Tensor>& expected) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!at::equal(parameters[i].tensor, expected[i])) return false;
  return true;
}

/// The same on all ranks; the fifth parameter gets none every other step.
void set_gradients(const std::vector<NamedTensor>& parameters, int step) {
  at::manual_seed(static_cast<std::uint64_t>(step));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters[i].tensor;
    at::Tensor gradient = at::randn(tensor.sizes(), tensor.scalar_type());
    if (tensor.dim() == 4) gradient = gradient.contiguous(at::MemoryFormat::ChannelsLast);
    const bool without = !tensor.requires_grad() || (i == 5 && step % 2 == 1);
    tensor.mutable_grad() = without ? at::Tensor() : gradient;
  }
}

TEST_CASE("what each rank does to its pieces, all ranks of the group get") {
  const int per_node = GENERATE(0, 2);
  HostCommunicator comm = test::host_communicator(per_node);
  const auto model = parameters();
  const auto before = values(model);
  ParameterStore trained(model, {}, nothing, &comm, place_rows(model, comm, /*row_bytes=*/0));
  CHECK(all_equal(model, before));
  CHECK(model[2].tensor.is_contiguous(at::MemoryFormat::ChannelsLast));

  auto expected = before;
  for (int step = 1; step <= 10; ++step) {
    const auto version = model[1].tensor._version();
    trained.begin_update();
    {
      const at::NoGradGuard no_grad;
      for (const Piece& piece : trained.pieces()) at::Tensor(piece.values).add_(step);
    }
    trained.publish();
    for (at::Tensor& tensor : expected) tensor.add_(step);
    CHECK(all_equal(model, expected));
    CHECK(model[1].tensor._version() > version);
    // Every rank's copy is its own: a change that all of them make counts once.
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : model) tensor.mul_(0.5);
    for (at::Tensor& tensor : expected) tensor.mul_(0.5);
  }
}

TEST_CASE("pieces are the parameters' in their order, with the gradients that belong to them") {
  HostCommunicator comm = test::host_communicator();
  const auto model = parameters();
  ParameterStore trained(model, {}, nothing, &comm, place_rows(model, comm, /*row_bytes=*/0));
  std::int64_t covered = 0;
  for (int step = 0; step < 2; ++step) {
    set_gradients(model, step);
    trained.synchronize();
    std::size_t parameter = 0;
    for (std::size_t p = 0; p < trained.pieces().size(); ++p) {
      const Piece& piece = trained.pieces()[p];
      while (model[parameter].name != piece.name) REQUIRE(++parameter < model.size());
      const at::Tensor& tensor = model[parameter].tensor;
      CHECK(at::IntArrayRef(piece.shape) == tensor.sizes());
      const auto part = [&](const at::Tensor& whole) {
        return piece.is_whole() ? whole : whole.reshape({-1}).slice(0, piece.range.begin, piece.range.end);
      };
      CHECK(at::equal(piece.values, part(tensor.detach())));
      REQUIRE(trained.gradients()[p].defined() == tensor.grad().defined());
      if (tensor.grad().defined()) CHECK(at::equal(trained.gradients()[p], part(tensor.grad())));
      if (step == 0 && parameter != 2) covered += piece.range.size();
    }
  }
  std::vector<double> sum{static_cast<double>(covered)};
  test_world().sum(sum);
  CHECK(sum[0] == 3 + 15000 + 1000 + 2100 + 400);  // each element of what is divided, once
}

TEST_CASE("norms have the bits that they have where every rank does everything") {
  HostCommunicator comm = test::host_communicator();
  const auto model = parameters(), whole = parameters();
  ParameterStore trained(model, {}, nothing, &comm, place_rows(model, comm, /*row_bytes=*/0));
  ParameterStore reference(whole, {}, nothing);
  for (int step = 0; step < 2; ++step) {
    set_gradients(model, step);
    set_gradients(whole, step);
    trained.synchronize();
    reference.synchronize();
    for (const double order : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      const auto norms = trained.gradient_norms(order), expected = reference.gradient_norms(order);
      REQUIRE(norms.size() == expected.size());
      for (std::size_t i = 0; i < norms.size(); ++i) {
        CAPTURE(i, order, step);
        REQUIRE(norms[i].defined() == expected[i].defined());
        if (norms[i].defined()) CHECK(at::equal(norms[i], expected[i]));
      }
    }
  }
}

TEST_CASE("master weights of divided parameters have the bits of those of whole ones") {
  HostCommunicator comm = test::host_communicator(GENERATE(0, 2));
  const PrecisionPolicy o2 = precision_policy("16-mixed", "O2");
  const auto make = [] {
    std::vector<NamedTensor> made = parameters();
    for (std::size_t i = 0; i < made.size(); ++i)
      made[i].tensor =
          made[i].tensor.detach().to(i % 2 == 0 ? at::kHalf : at::kBFloat16).requires_grad_(true);
    return made;
  };
  const auto model = make(), whole = make();
  ParameterStore trained(model, o2, nothing, &comm, place_rows(model, comm, /*row_bytes=*/0));
  ParameterStore reference(whole, o2, nothing);
  for (int step = 0; step < 3; ++step) {
    set_gradients(model, step);
    set_gradients(whole, step);
    for (ParameterStore* const store : {&trained, &reference}) {
      store->synchronize();
      const at::NoGradGuard no_grad;
      store->begin_update();
      for (std::size_t p = 0; p < store->pieces().size(); ++p) {
        at::Tensor master = store->pieces()[p].values;
        CHECK(master.scalar_type() == at::kFloat);
        if (store->gradients()[p].defined()) master.add_(store->gradients()[p], 1e-4);
      }
      store->publish();
    }
    CHECK(all_equal(model, values(whole)));
  }
}

TEST_CASE("an overflow in one rank's pieces is one for all that divide the work") {
  HostCommunicator comm = test::host_communicator();
  const auto model = parameters();
  ParameterStore trained(model, {}, nothing, &comm, place_rows(model, comm, /*row_bytes=*/0));
  for (const bool overflow : {true, false}) {
    const bool here = overflow && test_world().rank() == test_world().size() - 1;
    const at::Tensor found = at::full({1}, here ? 1.0 : 0.0);
    trained.agree_on_overflow(found);
    CHECK(found.item<double>() == (overflow ? 1 : 0));
  }
}

TEST_CASE("parameters keep their place after division and communicator are gone, and can be divided again") {
  const auto model = parameters();
  const auto before = values(model);
  for (int repeat = 0; repeat < 2; ++repeat) {
    HostCommunicator comm = test::host_communicator();
    CHECK(divisible(model) == std::vector<std::string>{"p0", "p1", "p3", "p4", "p5", "p6"});
    ParameterStore(model, {}, nothing, &comm, place_rows(model, comm, /*row_bytes=*/0)).publish();
  }
  CHECK(all_equal(model, before));
  const at::NoGradGuard no_grad;
  model[1].tensor.add_(test_world().rank());
  CHECK(at::equal(model[1].tensor, before[1].add(test_world().rank())));
}

TEST_CASE("nothing is divided where one parameter's memory belongs to others as well") {
  const auto model = parameters();
  const at::Tensor alias = model[1].tensor.detach().view(-1);
  CHECK(divisible(model).empty());
}

}  // namespace
}  // namespace cxtrain
