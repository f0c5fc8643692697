#include "cxtrain/comm/node/mailbox.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <array>
#include <set>

#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/rank_messages.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"

namespace cxtrain {
namespace {

/// Rank 0 posts one tensor, rank 1 opens the letter; nothing on other ranks.
at::Tensor pass_on(Mailbox& mailbox, const at::Tensor& tensor, std::set<const SharedMemory*>& used) {
  const MpiComm& comm = test_world().comm();
  Mailbox::Posted posted;
  if (comm.rank() == 0) {
    posted = mailbox.post(std::array{tensor}, Mailbox::bytes_of(std::array{tensor}));
    REQUIRE(posted.memory != nullptr);
    CHECK_FALSE(Mailbox::is_received(posted));
    used.insert(posted.memory.get());
  }
  MPI_Bcast(&posted.place, sizeof posted.place, MPI_BYTE, 0, comm.get());
  at::Tensor received;
  if (comm.rank() == 1) received = mailbox.open(posted.place).next(tensor.sizes(), tensor.scalar_type());
  if (comm.rank() == 0) Mailbox::wait_until_received(posted);
  return received;
}

/// Null, on all ranks alike, unless the ranks are on one node.
std::unique_ptr<Mailbox> make_mailbox() {
  const MpiWorld& world = test_world();
  if (world.facts().num_nodes > 1) return nullptr;
  return Mailbox::make(world.comm(), world.node_comm());
}

TEST_CASE("a letter's memory has another letter when its tensors have ended") {
  World& world = test_world();
  const std::unique_ptr<Mailbox> mailbox = make_mailbox();
  if (mailbox == nullptr) return test::skip_for_ranks("needs several ranks of one node");
  std::set<const SharedMemory*> used;
  const at::Tensor values = at::arange(5000, at::kFloat).view({50, 100}).t();
  at::Tensor kept = pass_on(*mailbox, values, used);
  for (int i = 0; i < 5; ++i) {
    const at::Tensor next = pass_on(*mailbox, at::full({100, 50}, i, at::kFloat), used);
    if (world.rank() == 1) CHECK(at::equal(next, at::full({100, 50}, i, at::kFloat)));
  }
  if (world.rank() == 1) CHECK(at::equal(kept, values));
  world.barrier();  // the last tensor but `kept` has ended
  if (world.rank() == 0) CHECK(used.size() <= 3);
  const std::size_t before = used.size();
  pass_on(*mailbox, values, used);
  CHECK(used.size() == before);
}

TEST_CASE("a letter whose kinds do not fit its memory is refused") {
  World& world = test_world();
  const std::unique_ptr<Mailbox> mailbox = make_mailbox();
  if (mailbox == nullptr) return test::skip_for_ranks("needs several ranks of one node");
  const auto post = [&] {
    const std::array own{at::full({100}, 1, at::kFloat)};
    return mailbox->post(own, Mailbox::bytes_of(own)).place;
  };
  CHECK_THROWS_WITH(mailbox->open(post()).next({1'000'000}, at::kFloat),
                    test::contains("larger than its memory"));
  Mailbox::Place place = post();
  CHECK_THROWS_WITH(mailbox->open(place).next({std::int64_t{1} << 40, std::int64_t{1} << 40}, at::kDouble),
                    test::contains("larger than its memory"));
  CHECK_THROWS_WITH(mailbox->open(place), test::contains("is not in its memory"));  // no longer
  place = post();
  ++place.number;
  CHECK_THROWS_WITH(mailbox->open(place), test::contains("is not in its memory"));
  ++place.memory.inode;
  CHECK_THROWS_WITH(mailbox->open(place), test::contains("cannot be mapped"));
  place.memory.name[0] = '/';
  CHECK_THROWS_WITH(mailbox->open(place), test::contains("cannot be mapped"));
  world.barrier();
}

TEST_CASE("tensors of a message outlive the messages") {
  World& world = test_world();
  if (world.size() == 1) return test::skip_for_ranks("one rank has nobody to write to");
  std::vector<at::Tensor> received;
  {
    const std::unique_ptr<RankMessages> messages = make_rank_messages(world);
    const int next = (world.rank() + 1) % world.size(),
              before = (world.rank() + world.size() - 1) % world.size();
    messages->send(std::array{at::full({1000}, world.rank(), at::kInt)}, next, 1);
    received = messages->receive(before, 1);
    messages->wait_for_all();
    CHECK(at::equal(received.front(), at::full({1000}, before, at::kInt)));
  }
  world.barrier();
  received.front().add_(1);
  CHECK(received.front().sum().item<std::int64_t>() ==
        1000 * (1 + (world.rank() + world.size() - 1) % world.size()));
}

}  // namespace
}  // namespace cxtrain
