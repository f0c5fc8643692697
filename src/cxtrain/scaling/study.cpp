#include "cxtrain/scaling/study.h"

#include <algorithm>
#include <random>
#include <utility>

#include "cxtrain/base/text.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// Whether an option of the trainer stands among the words of a command line, in any spelling.
bool names_option(const std::vector<std::string>& words, std::string_view name) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    if (!word.starts_with("--")) return false;
    const std::string option = option_key(word);
    return option == name || option == "trainer." + std::string(name);
  });
}

}  // namespace

std::string StudyPoint::folder() const {
  return "points/r" + std::to_string(size.ranks) + "-n" + std::to_string(size.nodes) + "-k" +
         std::to_string(round);
}

std::vector<StudyPoint> schedule_of(const Study& study) {
  std::vector<StudyPoint> schedule;
  for (int round = 1; round <= study.rounds; ++round) {
    // A round's order does not change when rounds are added.
    std::mt19937_64 random(static_cast<std::uint64_t>(study.seed) * 1000003 +
                           static_cast<std::uint64_t>(round));
    std::vector<StudySize> sizes = study.sizes;
    for (std::size_t left = sizes.size(); left > 1; --left)
      std::swap(sizes[left - 1], sizes[random() % left]);
    for (const StudySize& size : sizes) schedule.push_back({size, round});
  }
  return schedule;
}

std::vector<std::string> options_of_point(const Study& study, const StudySize& size,
                                          const std::string& root) {
  std::vector<std::string> options = study.options;
  const auto set = [&](const char* name, const std::string& value) {
    options.push_back(std::string(name) + "=" + value);
  };
  set("--devices", std::to_string(size.ranks / size.nodes));
  if (size.nodes > 1) set("--num_nodes", std::to_string(size.nodes));
  if (study.mode == ScalingMode::strong)
    set("--data.batch_size", std::to_string(study.batch_size / size.ranks));
  set("--default_root_dir", root);
  set("--profiler", "simple");
  if (!names_option(study.options, "enable_checkpointing")) set("--enable_checkpointing", "false");
  set("--limit_val_batches", "0");
  set("--num_sanity_val_steps", "0");
  set("--enable_progress_bar", "false");
  set("--enable_model_summary", "false");
  return options;
}

std::string fault_of(const Study& study) {
  constexpr std::size_t kMaxSizes = 1000;
  if (study.sizes.empty() || study.sizes.size() > kMaxSizes || study.rounds > kMaxRounds)
    return "has no sizes, or too many sizes or rounds";
  for (std::size_t i = 0; i < study.sizes.size(); ++i) {
    const StudySize& size = study.sizes[i];
    if (size.ranks % size.nodes != 0 || (i > 0 && !(study.sizes[i - 1] < size)))
      return "has sizes that are not in order, or nodes that do not divide the ranks";
  }
  return "";
}

int most_ranks_of_node(const Study& study) {
  int most = 0;
  for (const StudySize& size : study.sizes) most = std::max(most, size.ranks / size.nodes);
  return most;
}

std::string name_of(const StudySize& size) {
  std::string name = counted(size.ranks, "rank");
  if (size.nodes > 1) name += " on " + std::to_string(size.nodes) + " nodes";
  return name;
}

}  // namespace cxtrain
