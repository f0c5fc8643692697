#include "cxtrain/callbacks/checkpoint_policy.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/catch.h"

using namespace cxtrain;

namespace {

/// Writes a checkpoint of this value, named by its number, if the policy decides so. Returns the new state.
KeptCheckpoints next(const CheckpointPolicy& policy, const KeptCheckpoints& kept, int number,
                     std::optional<double> value, bool must_save = false) {
  std::optional<CheckpointPolicy::Decision> decision = policy.decide(kept, value, must_save);
  return decision ? policy.after(*decision, std::to_string(number), value) : kept;
}

}  // namespace

TEST_CASE("the policy is due after whole multiples of steps and epochs", "[checkpoint]") {
  const CheckpointPolicy policy({.every_n_train_steps = 3, .every_n_epochs = 2});
  CHECK_FALSE(policy.due_after_step(2));
  CHECK(policy.due_after_step(6));
  CHECK_FALSE(policy.due_after_epoch(0));
  CHECK(policy.due_after_epoch(1));
  const CheckpointPolicy never({});
  CHECK_FALSE(never.due_after_step(6));
  CHECK_FALSE(never.due_after_epoch(1));
}

TEST_CASE("without a metric the newest checkpoint is the best, and replaces the one before", "[checkpoint]") {
  const CheckpointPolicy policy({});
  const KeptCheckpoints first = next(policy, {}, 1, 0.0), second = next(policy, first, 2, 0.0);
  CHECK(second.best_path == "2");
  CHECK(second.last_path == "2");
  CHECK(evicted(first, second) == std::vector<std::string>{"1"});
}

TEST_CASE("a checkpoint that is not among the best is written only if it must be, or is the last",
          "[checkpoint]") {
  const CheckpointPolicy best({.monitors = true}), last({.monitors = true, .save_last = true});
  const KeptCheckpoints kept = next(best, {}, 1, 0.5);
  CHECK_FALSE(best.decide(kept, 0.7, /*must_save=*/false));
  CHECK_FALSE(best.decide(kept, std::nullopt, /*must_save=*/false));
  const KeptCheckpoints asked = next(best, kept, 2, 0.7, /*must_save=*/true);
  CHECK(asked.paths() == std::set<std::string>{"1", "2"});
  CHECK(asked.best_path == "1");
  const KeptCheckpoints newest = next(last, kept, 2, 0.7), newer = next(last, newest, 3, 0.8);
  CHECK(newer.paths() == std::set<std::string>{"1", "3"});
  CHECK(evicted(newest, newer) == std::vector<std::string>{"2"});
}

TEST_CASE("the first of several equally good checkpoints stays the best", "[checkpoint]") {
  const CheckpointPolicy policy({.monitors = true, .mode = MonitorMode::max, .save_top_k = 3});
  const KeptCheckpoints ninth = next(policy, {}, 9, 1.0), tenth = next(policy, ninth, 10, 1.0);
  CHECK(tenth.paths() == std::set<std::string>{"9", "10"});
  CHECK(tenth.best_path == "9");
  CHECK(next(policy, tenth, 11, 1.5).best_path == "11");
}

TEST_CASE("the policy keeps the k best of any values", "[checkpoint]") {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const auto k = static_cast<std::int64_t>(random() % 4) + 1;
    const MonitorMode mode = random() % 2 == 0 ? MonitorMode::min : MonitorMode::max;
    const CheckpointPolicy policy({.monitors = true, .mode = mode, .save_top_k = k});
    KeptCheckpoints kept;
    std::vector<double> values;
    for (int i = 0; i < 12; ++i) {
      values.push_back(static_cast<double>(random() % 1000));
      kept = next(policy, kept, i, values.back());
    }
    std::sort(values.begin(), values.end());
    if (mode == MonitorMode::max) std::reverse(values.begin(), values.end());
    values.resize(static_cast<std::size_t>(k));
    std::vector<double> best;
    for (const auto& [path, value] : kept.best) best.push_back(value);
    std::sort(best.begin(), best.end());
    if (mode == MonitorMode::max) std::reverse(best.begin(), best.end());
    CHECK(best == values);
    CHECK(kept.best.at(kept.best_path) == values.front());
  }
}
