#include "launchers/restart_policy.h"

#include "cxtrain/base/error.h"
#include "support/catch.h"

using namespace cxtrain;
using Next = RestartPolicy::Decision::Next;

namespace {

constexpr int kKilled = 137;

}  // namespace

TEST_CASE("what is done, refused or asked for is not started again", "[restarts]") {
  for (const int status : {0, 2, 75, 93, 130, 143}) {
    RestartPolicy policy({.max_restarts = 3});
    const auto decision = policy.after({.status = status, .step = 5});
    CHECK(decision.next == Next::end);
    CHECK(decision.status == status);
    CHECK(decision.why.empty());
  }
  RestartPolicy policy({.max_restarts = 3});
  CHECK(policy.after({.status = kKilled, .asked_for = true, .step = 5}).next == Next::end);
  CHECK(policy.restarts() == 0);
}

TEST_CASE("a job that gets further is started again as often as it may", "[restarts]") {
  RestartPolicy policy({.max_restarts = 4});
  for (std::int64_t step = 0; step < 4; ++step)
    CHECK(policy.after({.status = 1, .step = step}).next == Next::from_newest);
  const auto last = policy.after({.status = 1, .step = 9});
  CHECK(last.next == Next::end);
  CHECK(last.status == 1);
  CHECK(policy.restarts() == 4);
  CHECK_THAT(last.why, test::contains("4 restarts"));
}

TEST_CASE("a job that fails three times in one place is given up, the one before tried in between",
          "[restarts]") {
  RestartPolicy policy({.max_restarts = 100});
  CHECK(policy.after({.status = kKilled, .step = 7}).next == Next::from_newest);
  CHECK(policy.after({.status = kKilled, .step = 7}).next == Next::from_the_one_before);
  SECTION("in the same place") {
    const auto decision = policy.after({.status = kKilled, .step = 7});
    CHECK(decision.next == Next::end);
    CHECK(decision.status == static_cast<int>(ExitCode::do_not_requeue));
    CHECK_THAT(decision.why, test::contains("3 times") && test::contains("step 7"));
  }
  SECTION("which came further, and then not") {
    CHECK(policy.after({.status = kKilled, .step = 8}).next == Next::from_newest);
    CHECK(policy.after({.status = kKilled, .step = 8}).next == Next::from_the_one_before);
    CHECK(policy.after({.status = kKilled, .step = 8}).status == 93);
  }
  SECTION("whose checkpoints are gone") { CHECK(policy.after({.status = kKilled, .step = -1}).status == 93); }
}

TEST_CASE("without any checkpoint three failures are the end", "[restarts]") {
  RestartPolicy policy({.max_restarts = 100});
  CHECK(policy.after({.status = 1}).next == Next::from_newest);
  CHECK(policy.after({.status = 1}).next == Next::from_the_one_before);
  const auto decision = policy.after({.status = 1});
  CHECK(decision.status == 93);
  CHECK_THAT(decision.why, test::contains("without a checkpoint"));
}

TEST_CASE("a rank that fails again in the same place is left out where enough remain", "[restarts]") {
  RestartPolicy policy({.max_restarts = 100, .ranks = 4, .min_ranks = 2});
  const auto fails = [&](std::optional<int> rank, std::int64_t samples = 64) {
    return policy.after({.status = kKilled, .step = 7, .rank = rank, .samples = samples});
  };
  SECTION("the same samples have to be divided equally") {
    CHECK(fails(1).next == Next::from_newest);
    const auto decision = fails(1);
    CHECK(decision.next == Next::without_rank);
    CHECK(decision.rank == 1);
    CHECK(policy.ranks() == 2);  // 64 / 3 is no whole number
    CHECK_THAT(decision.why, test::contains("rank 1") && test::contains("twice"));
    CHECK(fails(1).next == Next::from_newest);  // another rank 1, and the first failure of this job
    CHECK(fails(1).next == Next::from_the_one_before);
    CHECK(policy.ranks() == 2);
    CHECK(fails(1).status == 93);
  }
  SECTION("different ranks") {
    CHECK(fails(1).next == Next::from_newest);
    CHECK(fails(2).next == Next::from_the_one_before);
    CHECK(policy.ranks() == 4);
  }
  SECTION("unknown ranks, or samples") {
    CHECK(fails({}).next == Next::from_newest);
    CHECK(fails({}).next == Next::from_the_one_before);
    CHECK(fails(3, 0).status == 93);
  }
  SECTION("not where all have to be there") {
    RestartPolicy all({.max_restarts = 100, .ranks = 4});
    CHECK(all.after({.status = 1, .step = 7, .rank = 1, .samples = 64}).next == Next::from_newest);
    CHECK(all.after({.status = 1, .step = 7, .rank = 1, .samples = 64}).next == Next::from_the_one_before);
  }
}
