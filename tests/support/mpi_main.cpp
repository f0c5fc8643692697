#ifndef CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_RUNNER
#endif
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "cxtrain/base/log.h"
#include "cxtrain/memory/malloc_tuning.h"
#include "support/catch.h"
#include "support/mpi_world.h"

/// Runs the cases on every rank at once. After each the ranks agree on its outcome, so that a case that
/// failed anywhere failed; a case that outlasts its deadline ends the job with its name. Rank 0 reports;
/// others only their failures.
namespace {

std::unique_ptr<cxtrain::MpiWorld> world;

/// Ends the job when nobody has moved the deadline in time: a rank that waits for one that failed would wait
/// for ever.
class Deadline {
 public:
  explicit Deadline(std::chrono::seconds limit)
      : limit_(limit), thread_([this](std::stop_token stop) { watch(stop); }) {}

  void begin(const std::string& name) {
    const std::lock_guard lock(mutex_);
    name_ = name;
    end_ = std::chrono::steady_clock::now() + limit_;
  }

 private:
  void watch(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      const auto end = end_;  // which is read without the lock, too
      if (changed_.wait_until(lock, stop, end, [] { return false; })) break;
      if (stop.stop_requested() || std::chrono::steady_clock::now() < end_) continue;
      std::fprintf(stderr, "rank %d: `%s` is not done after %lld s\n", world->rank(), name_.c_str(),
                   static_cast<long long>(limit_.count()));
      _exit(1);
    }
  }

  std::chrono::seconds limit_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string name_ = "start";
  std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + limit_;
  std::jthread thread_;
};

std::unique_ptr<Deadline> deadline;
int failed_anywhere = 0;

struct Agreement : cxtrain::test::ListenerBase {
  using cxtrain::test::ListenerBase::ListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    name_ = info.name;
    deadline->begin(name_);
  }

#if __has_include(<catch2/catch_all.hpp>)
  void assertionEnded(const Catch::AssertionStats& stats) override { report(stats); }
#else
  bool assertionEnded(const Catch::AssertionStats& stats) override {
    report(stats);
    return true;
  }
#endif

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const bool failed = stats.totals.testCases.failed > 0;
    if (world->max(failed ? 1 : 0) == 0) return;
    ++failed_anywhere;
    if (!failed && world->is_root()) {
      std::fprintf(stderr, "FAILED on another rank: %s\n", name_.c_str());
    }
  }

 private:
  std::string name_;

  static void report(const Catch::AssertionStats& stats) {
    if (stats.assertionResult.isOk() || world->is_root()) return;
    const auto& result = stats.assertionResult;
    std::fprintf(stderr, "rank %d: %s:%zu: FAILED: %s\n  with %s\n", world->rank(),
                 result.getSourceInfo().file, result.getSourceInfo().line,
                 result.getExpressionInMacro().c_str(),
                 result.hasExpandedExpression() ? result.getExpandedExpression().c_str()
                                                : std::string(result.getMessage()).c_str());
  }
};

}  // namespace

CATCH_REGISTER_LISTENER(Agreement)

cxtrain::MpiWorld& test_world() { return *world; }

int main(int argc, char* argv[]) {
  cxtrain::keep_freed_memory();  // as the program does
  world = cxtrain::MpiWorld::start();
  const cxtrain::Log errors_only(/*rank=*/1);  // what rank 0 of a run would print is no test's output
  deadline = std::make_unique<Deadline>(std::chrono::seconds(150));
  Catch::Session session;
  int status = session.applyCommandLine(argc, argv);
  if (status == 0) {
    if (!world->is_root()) {
#if __has_include(<catch2/catch_all.hpp>)
      session.configData().defaultOutputFilename = "/dev/null";
#else
      session.configData().outputFilename = "/dev/null";
#endif
    }
    status = session.run();
  }
  deadline.reset();
  if (failed_anywhere > 0 && status == 0) status = 1;
  world.reset();
  return status;
}
