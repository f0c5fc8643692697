#include "cxtrain/reduce/tensor_sync.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "support/catch.h"
#include "support/fake_communicator.h"

namespace cxtrain {
namespace {

using Calls = std::vector<std::string>;

TEST_CASE("tensors of all dtypes travel in one message") {
  test::FakeCommunicator ranks(2);
  TensorSync sync({{"mean", at::ones({3})},
                   {"tracked", at::ones({}, at::kLong)},
                   {"mask", at::ones({5}, at::kBool)},
                   {"nothing", at::ones({0, 4})},
                   {"variance", at::ones({5})}},
                  ranks);
  sync.broadcast();
  // Each begins at a multiple of 16 bytes.
  CHECK(ranks.calls == Calls{"broadcast 80", "join"});
  sync.broadcast();
  CHECK(ranks.calls.size() == 4);
}

TEST_CASE("where nothing is to be sent nothing is") {
  test::FakeCommunicator ranks(2);
  TensorSync({}, ranks).broadcast();
  TensorSync({{"nothing", at::ones({0, 4})}}, ranks).broadcast();
  CHECK(ranks.calls.empty());
}

TEST_CASE("what is sent once travels in pieces") {
  test::FakeCommunicator ranks(2);
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < 5; ++i) tensors.push_back({"p", at::zeros({4 << 20})});
  TensorSync::broadcast_once(tensors, ranks);
  const std::string two = "broadcast " + std::to_string(32 << 20);
  CHECK(ranks.calls == Calls{two, "join", two, "join", "broadcast " + std::to_string(16 << 20), "join"});
}

}  // namespace
}  // namespace cxtrain
