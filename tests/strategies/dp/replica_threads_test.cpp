#include "strategies/dp/replica_threads.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <sys/resource.h>

#include <barrier>
#include <set>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/hidden_case.h"
#include "support/skip.h"

namespace cxtrain {
namespace {

const at::Device kCpu{at::kCPU};

TEST_CASE("replicas work at the same time, each always on its own thread, the first on the caller's") {
  ReplicaThreads threads({kCpu, kCpu, kCpu});
  std::vector<std::thread::id> first(3), second(3);
  std::barrier meeting(3);  // passed only if all three are there
  threads.run(3, [&](std::size_t i) {
    meeting.arrive_and_wait();
    first[i] = std::this_thread::get_id();
  });
  threads.run(3, [&](std::size_t i) { second[i] = std::this_thread::get_id(); });
  CHECK(first == second);
  CHECK(first[0] == std::this_thread::get_id());
  CHECK(std::set(first.begin(), first.end()).size() == 3);
}

TEST_CASE("replicas that have nothing to do are left out") {
  ReplicaThreads threads({kCpu, kCpu, kCpu});
  std::vector<int> ran(3);
  threads.run(2, [&](std::size_t i) { ++ran[i]; });
  threads.run(0, [&](std::size_t i) { ++ran[i]; });
  threads.run(3, [&](std::size_t i) { ++ran[i]; });
  CHECK(ran == std::vector{2, 2, 1});
}

TEST_CASE("the caller's thread-local modes hold on every thread, and only during the call") {
  ReplicaThreads threads({kCpu, kCpu});
  std::vector<char> gradient(2), inference(2);
  const auto look = [&](std::size_t i) {
    gradient[i] = at::GradMode::is_enabled();
    inference[i] = c10::InferenceMode::is_enabled();
  };
  {
    const at::NoGradGuard no_grad;
    threads.run(2, look);
    CHECK(gradient == std::vector<char>{0, 0});
    CHECK(inference == std::vector<char>{0, 0});
  }
  {
    const c10::InferenceMode mode;
    threads.run(2, look);
    CHECK(inference == std::vector<char>{1, 1});
  }
  threads.run(2, look);
  CHECK(gradient == std::vector<char>{1, 1});
  CHECK(inference == std::vector<char>{0, 0});
}

TEST_CASE("an error comes out on the calling thread and names the replica; the threads go on") {
  ReplicaThreads threads({kCpu, kCpu, kCpu});
  int ended = 0;
  REQUIRE_THAT(test::error_of([&] {
                 threads.run(3, [&](std::size_t i) {
                   if (i == 0) ++ended;
                   if (i == 1) throw DataError("no such file");
                   if (i == 2) throw std::runtime_error("later");
                 });
               }),
               test::contains(test::code(MessageCode::bad_data)) && test::contains("replica 1 of 3 (cpu)") &&
                   test::contains("no such file"));
  CHECK(ended == 1);
  try {
    threads.run(3, [](std::size_t i) {
      if (i > 0) throw DataError("x");
    });
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::refused);
  }
  REQUIRE_THROWS_AS(threads.run(1, [](std::size_t) { throw std::runtime_error("mine"); }), TrainingError);
  threads.run(3, [&](std::size_t i) {
    if (i == 0) ++ended;
  });
  CHECK(ended == 2);
}

/// Run by the next test in a process of its own: one that has had threads may have their stacks still.
TEST_CASE("no memory for threads", "[.no_memory_for_threads]") {
  const rlimit limit{std::uint64_t{1} << 30, RLIM_INFINITY};  // less than is in use: no stack for another one
  REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  CHECK_THAT(test::error_of([&] { ReplicaThreads(std::vector<at::Device>(400, kCpu)); }),
             test::contains(test::code(MessageCode::out_of_memory)) && test::contains("--devices") &&
                 test::contains("400 replicas"));
}

TEST_CASE("threads that cannot be had are an error that says how many there are") {
  if (!test::kAddressSpaceIsOurs) return test::skip("a sanitizer has the address space");
  CHECK(test::passes_alone("[.no_memory_for_threads]"));
}

}  // namespace
}  // namespace cxtrain
