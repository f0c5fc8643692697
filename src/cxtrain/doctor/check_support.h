#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/doctor/checks.h"

/// What several subjects of checks ask of a recording, and say.
namespace cxtrain::doctor {

inline constexpr std::int64_t kMiB = std::int64_t{1} << 20;
inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

/// One finding, as a list.
Findings note(std::string found, std::string fix = {});
Findings warning(std::string found, std::string fix);
Findings error(std::string found, std::string fix);
Findings not_known(std::string what);

/// "rank 3", "ranks 0-3,8".
std::string ranks_text(const std::vector<int>& ranks);
/// "gpu001, gpu002 and 14 more"; each name once.
std::string hosts_text(const std::vector<std::string>& hosts);
/// "1.5 GB", "300 MB".
std::string bytes_text(double bytes);
/// "1.5" of a number, with `digits` after the point.
std::string number_text(double value, int digits = 1);

/// The node of this number; null where the recording lacks it.
const NodeFacts* node_of(const Recording& world, int node);
/// Its ranks.
std::vector<const RankFacts*> ranks_of(const Recording& world, int node);
/// The ranks of each machine: nodes with one boot id are one machine, others are their own. With the nodes'
/// numbers, for their order.
std::map<std::string, std::vector<const RankFacts*>> ranks_of_machines(const Recording& world);
/// The machine of a node, as `ranks_of_machines` names it.
std::string machine_of(const Recording& world, int node);

/// The value of a variable; absent where it is not set or not known.
std::optional<std::string> variable(const RankFacts& rank, const std::string& name);
/// The value of a variable; absent if it is not set, not known or empty. NCCL and Open MPI ignore an empty
/// value.
std::optional<std::string> filled_variable(const RankFacts& rank, const std::string& name);
/// Whether a variable of NCCL's or Open MPI's switches something on: set, and neither 0 nor a no.
bool is_on(const std::optional<std::string>& value);
/// Whether any rank's environment is known.
bool knows_environment(const Recording& world);

/// Whether a network interface belongs to containers or virtual machines, by its name.
bool is_virtual(const std::string& name);
/// Mbit/s of the fastest interface that is up and may reach other nodes; 0: not known.
std::int64_t fastest_interface(const NodeFacts& node);
bool has_several_nodes(const Recording& world);
bool has_several_ranks(const Recording& world);
bool uses_gpus(const Recording& world);
/// How many processes the world has, also where the recording lacks their facts.
int world_size(const Recording& world);
/// The words between commas.
std::vector<std::string> split_words(std::string_view list);

/// For facts that have to be the same everywhere: ranks (or nodes) by value, unknown ones (empty) left out.
template <class Of, class List, class Value>
std::map<std::string, std::vector<Of>> group_by(const List& list, Value value, Of List::value_type::*name) {
  std::map<std::string, std::vector<Of>> groups;
  for (const auto& element : list) {
    const std::string key = std::invoke(value, element);
    if (!key.empty()) groups[key].push_back(element.*name);
  }
  return groups;
}

/// "A on ranks 0-3, B on ranks 4-7".
std::string groups_text(const std::map<std::string, std::vector<int>>& groups);
/// "A on gpu001, B on gpu002".
std::string groups_text(const std::map<std::string, std::vector<std::string>>& groups);

/// What a check finds that wants one value everywhere: the groups if there are several, and nothing if there
/// is one. Where there is none, `what` is not known. `head`: stands before the groups.
template <class Of>
Findings unlike(Severity severity, const std::string& head,
                const std::map<std::string, std::vector<Of>>& groups, const std::string& fix,
                const std::string& what) {
  if (groups.empty()) return not_known(what);
  if (groups.size() == 1) return {};
  return {Finding{severity, "", head + groups_text(groups), fix}};
}

/// What a check finds, node by node or rank by rank.
class FindingsCollector {
 public:
  void fine() { fine_ = true; }
  /// `words`: what is wrong; places with the same words are told together.
  void wrong(const std::string& words, const NodeFacts& node) { hosts_[words].push_back(node.host); }
  void wrong(const std::string& words, const RankFacts& rank) { ranks_[words].push_back(rank.rank); }
  /// `words`: what is wrong; empty: nothing.
  template <class Place>
  void judge(const std::string& words, const Place& place) {
    if (words.empty()) return fine();
    wrong(words, place);
  }
  /// `words`: what is wrong if `is_wrong`.
  template <class Place>
  void judge(bool is_wrong, const std::string& words, const Place& place) {
    judge(is_wrong ? words : "", place);
  }
  bool any() const { return !hosts_.empty() || !ranks_.empty(); }

  /// One finding of all that is wrong, as "words (gpu001, gpu002); words (ranks 0-3)". Where nothing is wrong
  /// and nothing was found fine, `what` is not known.
  Findings result(Severity severity, const std::string& fix, const std::string& what) const;

 private:
  bool fine_ = false;
  std::map<std::string, std::vector<std::string>> hosts_;
  std::map<std::string, std::vector<int>> ranks_;
};

}  // namespace cxtrain::doctor
