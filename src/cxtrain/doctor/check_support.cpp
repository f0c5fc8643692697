#include "cxtrain/doctor/check_support.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <span>

#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"

namespace cxtrain::doctor {
namespace {

Findings one_finding(Severity severity, std::string found, std::string fix) {
  return {Finding{severity, "", std::move(found), std::move(fix)}};
}

/// A list of texts for people: the first few, and how many more.
constexpr std::size_t kMaxNamed = 4;

std::string first_few(const std::vector<std::string>& texts, const char* separator, const char* last) {
  const std::string text = joined(std::span(texts).first(std::min(texts.size(), kMaxNamed)), separator);
  return texts.size() <= kMaxNamed ? text : text + last + std::to_string(texts.size() - kMaxNamed) + " more";
}

std::string joined_groups(const std::vector<std::string>& groups) {
  return first_few(groups, "; ", "; and ");
}

}  // namespace

Findings note(std::string found, std::string fix) {
  return one_finding(Severity::note, std::move(found), std::move(fix));
}
Findings warning(std::string found, std::string fix) {
  return one_finding(Severity::warning, std::move(found), std::move(fix));
}
Findings error(std::string found, std::string fix) {
  return one_finding(Severity::error, std::move(found), std::move(fix));
}
Findings not_known(std::string what) { return one_finding(Severity::unknown, std::move(what), ""); }

std::string ranks_text(const std::vector<int>& ranks) {
  std::vector<int> sorted = ranks;
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  return (sorted.size() == 1 ? "rank " : "ranks ") + format_ranges(sorted);
}

std::string hosts_text(const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    if (std::ranges::find(names, host) == names.end()) names.push_back(host);
  }
  return first_few(names, ", ", " and ");
}

std::string number_text(double value, int digits) { return formatted("%.*f", digits, value); }

std::string bytes_text(double bytes) {
  constexpr double kMega = 1e6, kGiga = 1e9;
  if (bytes < kMega) return number_text(bytes / 1e3, 0) + " kB";
  if (bytes < kGiga) return number_text(bytes / kMega, 0) + " MB";
  return number_text(bytes / kGiga, bytes < 100 * kGiga ? 1 : 0) + " GB";
}

const NodeFacts* node_of(const Recording& world, int node) {
  const auto found = std::ranges::find(world.nodes, node, &NodeFacts::node);
  return found == world.nodes.end() ? nullptr : &*found;
}

std::vector<const RankFacts*> ranks_of(const Recording& world, int node) {
  std::vector<const RankFacts*> ranks;
  for (const RankFacts& rank : world.ranks) {
    if (rank.node == node) ranks.push_back(&rank);
  }
  return ranks;
}

std::string machine_of(const Recording& world, int node) {
  const NodeFacts* facts = node_of(world, node);
  return facts != nullptr && !facts->boot_id.empty() ? facts->boot_id : "node " + std::to_string(node);
}

std::map<std::string, std::vector<const RankFacts*>> ranks_of_machines(const Recording& world) {
  std::map<std::string, std::vector<const RankFacts*>> ranks;
  for (const RankFacts& rank : world.ranks) ranks[machine_of(world, rank.node)].push_back(&rank);
  return ranks;
}

std::optional<std::string> variable(const RankFacts& rank, const std::string& name) {
  if (!rank.environment) return std::nullopt;
  const auto found = rank.environment->find(name);
  return found == rank.environment->end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> filled_variable(const RankFacts& rank, const std::string& name) {
  const std::optional<std::string> value = variable(rank, name);
  return value && !value->empty() ? value : std::nullopt;
}

bool is_on(const std::optional<std::string>& value) {
  constexpr std::array kNos{"", "0", "n", "no", "false", "off"};
  return value &&
         std::ranges::none_of(kNos, [&](const char* no) { return strcasecmp(value->c_str(), no) == 0; });
}

bool knows_environment(const Recording& world) {
  return std::ranges::any_of(world.ranks, [](const RankFacts& rank) { return rank.environment.has_value(); });
}

bool is_virtual(const std::string& name) {
  constexpr const char* kNames[] = {"docker",  "virbr", "veth",   "br-", "cni",
                                    "flannel", "cali",  "podman", "lxc"};
  return std::ranges::any_of(kNames, [&](const char* prefix) { return name.starts_with(prefix); });
}

std::int64_t fastest_interface(const NodeFacts& node) {
  std::int64_t fastest = 0;
  for (const InterfaceFacts& interface : node.interfaces.value_or(std::vector<InterfaceFacts>())) {
    if (interface.up.value_or(true) && interface.name != "lo" && !is_virtual(interface.name))
      fastest = std::max(fastest, interface.mbit_per_second.value_or(0));
  }
  return fastest;
}

bool has_several_nodes(const Recording& world) {
  return world.job.nodes.value_or(static_cast<int>(world.nodes.size())) > 1;
}

bool uses_gpus(const Recording& world) { return world.job.accelerator == "gpu"; }

int world_size(const Recording& world) {
  return world.job.world_size.value_or(static_cast<int>(world.ranks.size()));
}

bool has_several_ranks(const Recording& world) { return world_size(world) > 1; }

std::vector<std::string> split_words(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (comma != 0) words.emplace_back(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view() : list.substr(comma + 1);
  }
  return words;
}

std::string groups_text(const std::map<std::string, std::vector<int>>& groups) {
  return joined_groups(
      transformed(groups, [](const auto& each) { return each.first + " on " + ranks_text(each.second); }));
}

std::string groups_text(const std::map<std::string, std::vector<std::string>>& groups) {
  return joined_groups(
      transformed(groups, [](const auto& each) { return each.first + " on " + hosts_text(each.second); }));
}

Findings FindingsCollector::result(Severity severity, const std::string& fix, const std::string& what) const {
  if (!any()) return fine_ ? Findings{} : not_known(what);
  std::vector<std::string> texts;
  for (const auto& [words, hosts] : hosts_) texts.push_back(words + " (" + hosts_text(hosts) + ")");
  for (const auto& [words, ranks] : ranks_) texts.push_back(words + " (" + ranks_text(ranks) + ")");
  return one_finding(severity, joined_groups(texts), fix);
}

}  // namespace cxtrain::doctor
