#include "cxtrain/comm/rank_messages.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <array>

#include "support/catch.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

TEST_CASE("ranks exchange tensors of any kind, and nobody waits to send") {
  World& world = test_world();
  if (world.size() == 1) return test::skip_for_ranks("one rank has nobody to write to");
  const std::unique_ptr<RankMessages> messages = make_rank_messages(world);
  const int next = (world.rank() + 1) % world.size(),
            before = (world.rank() + world.size() - 1) % world.size();
  const std::array tensors{at::arange(6).view({2, 3}).t(), at::Tensor(), at::full({}, 2.5, at::kDouble),
                           at::full({0, 4}, 1, at::kBFloat16),
                           at::arange(3'000'000).to(at::kFloat)};  // several pieces
  // All ranks send first, and much.
  for (int i = 0; i < 3; ++i) messages->send(tensors, next, /*tag=*/5);
  for (int i = 0; i < 3; ++i) {
    const std::vector<at::Tensor> received = messages->receive(before, 5);
    REQUIRE(received.size() == tensors.size());
    for (std::size_t k = 0; k < tensors.size(); ++k) {
      REQUIRE(received[k].defined() == tensors[k].defined());
      if (!tensors[k].defined()) continue;
      CHECK(received[k].scalar_type() == tensors[k].scalar_type());
      CHECK(at::equal(received[k], tensors[k]));
    }
  }
  messages->wait_for_all();
}

TEST_CASE("messages of different tags may be received in any order") {
  World& world = test_world();
  if (world.size() == 1) return test::skip_for_ranks("one rank has nobody to write to");
  const std::unique_ptr<RankMessages> messages = make_rank_messages(world);
  if (world.rank() == 0) {
    for (const int tag : {1, 2, 1}) messages->send(std::array{at::full({}, tag, at::kInt)}, 1, tag);
    messages->send({}, 1, 3);
  } else if (world.rank() == 1) {
    CHECK(messages->receive(0, 3).empty());
    CHECK(messages->receive(0, 2).front().item<int>() == 2);
    CHECK(messages->receive(0, 1).front().item<int>() == 1);
    CHECK(messages->receive(0, 1).front().item<int>() == 1);
  }
  messages->wait_for_all();
}

}  // namespace
}  // namespace cxtrain
