#include "cxtrain/cli/same_options.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/repeatable_components.h"
#include "cxtrain/cluster/exchange.h"

namespace cxtrain {
namespace {

/// Values by option.
using OptionValues = std::map<std::string, std::string>;

bool may_differ(std::string_view key) {
  constexpr std::array<std::string_view, 4> kPlaces{"data.path", "model.weights", "plugin",
                                                    "trainer.default_root_dir"};
  return std::ranges::find(kPlaces, key) != kPlaces.end();
}

void add_arguments(OptionValues& values, const std::string& prefix,
                   const std::map<std::string, std::string>& arguments) {
  for (const auto& [name, value] : arguments) values[prefix + "." + name] = value;
}

OptionValues values_of(const Options& options) {
  OptionValues values;
  for (const OptionEntry& entry : option_table()) {
    if (!entry.saved || !entry.canonical.empty() || may_differ(entry.key)) continue;
    values[entry.key] = joined(entry.write(options).value_or(std::vector<std::string>{"null"}), ",");
  }
  Options accessed = options;  // the table's accessors are for writing, too
  for (const ComponentEntry& component : component_table()) {
    if (component.saved) add_arguments(values, component.key, component.args(accessed));
  }
  for (const RepeatableComponents& listed : kRepeatableComponents) {
    for (const NamedOptions& component : options.*listed.list) {
      const std::string key = std::string(listed.key) + "." + component.name;
      values[key] = "true";
      add_arguments(values, key, component.args);
    }
  }
  return values;
}

/// "rank 0 has 1, rank 3 has 2": each value once, with the first rank that has it.
std::string values_by_rank(const std::vector<OptionValues>& ranks, const std::string& key) {
  std::vector<std::string> seen;
  std::string text;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto found = ranks[rank].find(key);
    const std::string value = found == ranks[rank].end() ? "none" : found->second;
    if (std::ranges::find(seen, value) != seen.end()) continue;
    seen.push_back(value);
    text += (text.empty() ? "rank " : ", rank ") + std::to_string(rank) + " has " + shortened(value, 80);
  }
  return seen.size() > 1 ? text : std::string();
}

}  // namespace

void require_same_options(World& world, const Options& options) {
  const OptionValues own = values_of(options);
  if (same_on_all_ranks(world, to_message(own))) return;
  const std::vector<OptionValues> ranks = gather_values(world, own);
  std::map<std::string, std::string> all;  // keys of any rank
  for (const OptionValues& rank : ranks) all.insert(rank.begin(), rank.end());
  constexpr int kMaxDifferences = 5;
  int count = 0;
  std::string differences;
  for (const auto& [key, value] : all) {
    const std::string by_rank = values_by_rank(ranks, key);
    if (by_rank.empty() || ++count > kMaxDifferences) continue;
    differences += (differences.empty() ? "" : "; ") + key + ": " + by_rank;
  }
  if (count > kMaxDifferences) differences += "; and " + std::to_string(count - kMaxDifferences) + " more";
  throw AgreedError(ExitCode::refused, MessageCode::different_options,
                    "the ranks were started with different options: " + differences +
                        " (start all ranks with the same command line)");
}

}  // namespace cxtrain
