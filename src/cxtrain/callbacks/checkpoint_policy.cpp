#include "cxtrain/callbacks/checkpoint_policy.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace cxtrain {

std::set<std::string> KeptCheckpoints::paths() const {
  std::set<std::string> paths;
  for (const auto& [path, value] : best) paths.insert(path);
  if (!last_path.empty()) paths.insert(last_path);
  return paths;
}

std::optional<CheckpointPolicy::Decision> CheckpointPolicy::decide(const KeptCheckpoints& kept,
                                                                   std::optional<double> value,
                                                                   bool must_save) const {
  Decision decision{.stays = kept};
  decision.among_best = value && rules_.save_top_k != 0 && makes_room(decision.stays, *value);
  if (!decision.among_best && !rules_.save_last && !must_save) return std::nullopt;
  return decision;
}

KeptCheckpoints CheckpointPolicy::after(Decision decision, const std::string& path,
                                        std::optional<double> value) const {
  KeptCheckpoints kept = std::move(decision.stays);
  if (decision.among_best) {
    kept.best[path] = value.value_or(0);
    kept.best_path = rules_.monitors ? best_of(kept) : path;
  }
  kept.last_path = path;
  return kept;
}

/// Returns whether a checkpoint of this value is one of the best. If the best are enough by then, drops the
/// worst of them.
bool CheckpointPolicy::makes_room(KeptCheckpoints& kept, double value) const {
  if (rules_.save_top_k == -1 || std::ssize(kept.best) < rules_.save_top_k) return true;
  if (!rules_.monitors) {
    kept.best.clear();
    return true;
  }
  const auto worst = std::ranges::max_element(
      kept.best, [this](const auto& a, const auto& b) { return better(a.second, b.second); });
  if (!better(value, worst->second)) return false;
  kept.best.erase(worst);
  return true;
}

/// If another checkpoint is equally good, the best checkpoint so far stays the best.
std::string CheckpointPolicy::best_of(const KeptCheckpoints& kept) const {
  const auto best = std::ranges::min_element(
      kept.best, [this](const auto& a, const auto& b) { return better(a.second, b.second); });
  const auto before = kept.best.find(kept.best_path);
  return before != kept.best.end() && before->second == best->second ? before->first : best->first;
}

std::vector<std::string> evicted(const KeptCheckpoints& before, const KeptCheckpoints& after) {
  const std::set<std::string> had = before.paths(), has = after.paths();
  std::vector<std::string> gone;
  std::set_difference(had.begin(), had.end(), has.begin(), has.end(), std::back_inserter(gone));
  return gone;
}

}  // namespace cxtrain
