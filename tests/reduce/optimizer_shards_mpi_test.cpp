#include "cxtrain/reduce/optimizer_shards.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>

#include "support/catch.h"
#include "support/host_communicator.h"

namespace cxtrain {
namespace {

std::vector<NamedTensor> parameters() {
  at::manual_seed(5);
  std::vector<NamedTensor> made;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{3}, {300, 50}, {6, 4, 5, 5}, {1000}}) {
    at::Tensor tensor = at::rand(shape, shape.size() == 1 ? at::kDouble : at::kFloat);
    if (shape.size() == 4) tensor = tensor.contiguous(at::MemoryFormat::ChannelsLast);
    made.push_back({"p" + std::to_string(made.size()), tensor.requires_grad_()});
  }
  return made;
}

std::vector<at::Tensor> values(const std::vector<NamedTensor>& parameters) {
  std::vector<at::Tensor> result;
  for (const auto& [name, tensor] : parameters) result.push_back(tensor.detach().clone());
  return result;
}

/// Adds to this rank's shard only.
void add_to_mine(const OptimizerShards& shards, const std::vector<NamedTensor>& parameters, double amount) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const ElementRange range = shards.mine()[i];
    const at::Tensor& tensor = parameters[i].tensor;
    tensor.as_strided({range.size()}, {1}, tensor.storage_offset() + range.begin).add_(amount);
  }
}

bool all_equal(const std::vector<NamedTensor>& parameters, const std::vector<at::Tensor>& expected) {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!at::equal(parameters[i].tensor, expected[i])) return false;
  return true;
}

TEST_CASE("what each rank does to its shard, all ranks of the node get") {
  const int per_node = GENERATE(0, 2);
  HostCommunicator comm = test::host_communicator(per_node);
  const auto model = parameters();
  const auto before = values(model);
  const auto shards = OptimizerShards::divide(model, comm, test_world());
  const int ranks = test_world().size();
  const bool alone = ranks == 1 || (per_node == 2 && ranks == 3 && test_world().rank() == 2);
  REQUIRE((shards == nullptr) == alone);
  if (alone) return;

  CHECK(all_equal(model, before));
  CHECK(model[2].tensor.is_contiguous(at::MemoryFormat::ChannelsLast));
  auto expected = before;
  for (int step = 1; step <= 20; ++step) {
    const auto version = model[1].tensor._version();
    add_to_mine(*shards, model, step);
    shards->all_gather();
    for (at::Tensor& tensor : expected) tensor.add_(step);
    CHECK(all_equal(model, expected));
    CHECK(model[1].tensor._version() > version);
    // Every rank's copy is its own: a change that all of them make counts once.
    const at::NoGradGuard no_grad;
    for (const auto& [name, tensor] : model) tensor.mul_(0.5);
    for (at::Tensor& tensor : expected) tensor.mul_(0.5);
  }
}

TEST_CASE("parameters keep their place after shards and communicator are gone, and can be divided again") {
  if (test_world().size() == 1) return;
  const auto model = parameters();
  const auto before = values(model);
  for (int repeat = 0; repeat < 2; ++repeat) {
    HostCommunicator comm = test::host_communicator();
    const auto shards = OptimizerShards::divide(model, comm, test_world());
    REQUIRE(shards != nullptr);
    shards->all_gather();
  }
  CHECK(all_equal(model, before));
  const at::NoGradGuard no_grad;
  model[1].tensor.add_(test_world().rank());
  CHECK(at::equal(model[1].tensor, before[1].add(test_world().rank())));
}

TEST_CASE("an obstacle on one rank leaves the parameters of all where they are, and is named") {
  HostCommunicator comm = test::host_communicator();
  const auto model = parameters();
  const bool obstructed = test_world().rank() == test_world().size() - 1;
  const at::Tensor alias = obstructed ? model[1].tensor.detach().view(-1) : at::Tensor();
  const void* const place = model[1].tensor.const_data_ptr();
  CHECK(OptimizerShards::divide(model, comm, test_world()) == nullptr);
  CHECK(model[1].tensor.const_data_ptr() == place);
  CHECK(OptimizerShards::obstacle(model) == (obstructed ? "p1 shares its memory with another tensor" : ""));
  const std::vector<NamedTensor> part{{"slice", at::rand({4, 4}).slice(1, 0, 2)}};
  CHECK(OptimizerShards::obstacle(part) == "slice does not lie in one piece");
}

}  // namespace
}  // namespace cxtrain
