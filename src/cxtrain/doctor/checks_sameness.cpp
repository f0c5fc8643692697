#include <algorithm>
#include <limits>
#include <set>

#include "cxtrain/doctor/check_support.h"

/// What has to be the same for all ranks.
namespace cxtrain::doctor {
namespace {

/// Digits of a hash that tell it from others in a message.
constexpr std::size_t kHashDigits = 12;

std::string short_hash(const std::string& hash) { return hash.substr(0, kHashDigits); }

Findings find_unlike_programs(const Recording& world) {
  const auto ranks = group_by<int>(
      world.ranks, [](const RankFacts& rank) { return short_hash(rank.program_hash); }, &RankFacts::rank);
  return unlike(Severity::error, "programs ", ranks, "install one build on all nodes, or in a shared folder",
                "the ranks' program files");
}

using HashesOf = std::map<std::string, std::string> RankFacts::*;

/// Files of one name and unequal content, or that some ranks lack.
Findings find_unlike_files(const Recording& world, HashesOf hashes, const std::string& kind) {
  std::set<std::string> names;
  for (const RankFacts& rank : world.ranks) {
    for (const auto& [name, hash] : rank.*hashes) names.insert(name);
  }
  for (const std::string& name : names) {
    std::map<std::string, std::vector<int>> values;
    for (const RankFacts& rank : world.ranks) {
      const auto found = (rank.*hashes).find(name);
      if ((rank.*hashes).empty()) continue;  // not known
      values[found == (rank.*hashes).end() ? "none" : short_hash(found->second)].push_back(rank.rank);
    }
    if (values.size() > 1)
      return error(kind + " " + name + ": " + groups_text(values),
                   "install equal files on all nodes, or use a shared folder; see LD_LIBRARY_PATH");
  }
  return {};
}

Findings find_unlike_libraries(const Recording& world) {
  if (std::ranges::all_of(world.ranks, [](const RankFacts& rank) { return rank.library_hashes.empty(); }))
    return not_known("the ranks' libraries");
  return find_unlike_files(world, &RankFacts::library_hashes, "library");
}

Findings find_unlike_plugins(const Recording& world) {
  return find_unlike_files(world, &RankFacts::plugin_hashes, "plugin");
}

/// The first so many words of a text.
std::string first_words(const std::string& text, std::size_t count) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < count && end != std::string::npos; ++i)
    end = text.find(' ', end == 0 ? 0 : end + 1);
  return text.substr(0, end);
}

std::size_t count_of_words(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, ' ')) + 1;
}

/// A rank that reads slowly looks at fewer samples, and its fingerprint is the beginning of the others'
/// (trainer/data_fingerprint.h).
Findings find_unlike_data_content(const Recording& world) {
  std::size_t shortest = std::numeric_limits<std::size_t>::max();
  for (const RankFacts& rank : world.ranks) {
    if (!rank.data_fingerprint.empty()) shortest = std::min(shortest, count_of_words(rank.data_fingerprint));
  }
  const auto ranks = group_by<int>(
      world.ranks, [&](const RankFacts& rank) { return first_words(rank.data_fingerprint, shortest); },
      &RankFacts::rank);
  return unlike(Severity::error, "data ", ranks,
                "copy the data to all nodes, or use a folder that they share", "the fingerprint of the data");
}

}  // namespace

std::vector<Check> sameness_checks() {
  return {
      {"same.program", "Ranks run different programs",
       "Builds that differ may disagree about every message, or train different models.",
       find_unlike_programs},
      {"same.libraries", "Ranks have different libraries",
       "Ranks that compute differently end with different parameters.", find_unlike_libraries},
      {"same.plugins", "Ranks have different plugins",
       "Ranks then train different models, or by different strategies.", find_unlike_plugins},
      {"same.data", "Ranks see different data",
       "Ranks divide one order of samples among themselves, and would skip some samples and repeat other "
       "samples.",
       find_unlike_data_content},
  };
}

}  // namespace cxtrain::doctor
