#include "cxtrain/config/plan.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

constexpr std::size_t kNodeLines = 4;  // more nodes of different layout than this are counted only

/// The numbers without repetitions, and whether there were some: ranks that take turns on too few GPUs.
std::pair<std::vector<int>, bool> distinct(const std::vector<int>& numbers) {
  std::vector<int> first;
  for (const int number : numbers) {
    if (std::ranges::find(first, number) == first.end()) first.push_back(number);
  }
  return {first, first.size() < numbers.size()};
}

std::string launcher_text(const std::string& launcher) {
  if (launcher == "none") return "";
  if (launcher == "subprocess") return ", started by this program under mpirun";
  if (launcher == "spawn") return ", spawned by this program";
  return ", started by " + launcher;
}

struct NodeLayout {
  int first = 0, last = 0;  ///< nodes with the same layout
  std::vector<int> ranks;   ///< of all of them
  std::vector<int> devices, gpus;

  bool like(const NodeLayout& other) const { return devices == other.devices && gpus == other.gpus; }
};

std::vector<NodeLayout> layouts(const Plan& plan) {
  std::vector<NodeLayout> nodes(static_cast<std::size_t>(std::max(0, plan.num_nodes)));
  for (const RankPlan& rank : plan.ranks) {
    NodeLayout& node = nodes[static_cast<std::size_t>(rank.node)];
    node.first = node.last = rank.node;
    node.ranks.push_back(rank.rank);
    node.gpus.insert(node.gpus.end(), rank.gpus.begin(), rank.gpus.end());
    if (rank.gpus.empty()) continue;
    for (const std::string& device : rank.devices) {
      node.devices.push_back(std::stoi(device.substr(device.find(':') + 1)));
    }
  }
  std::vector<NodeLayout> groups;
  for (NodeLayout& node : nodes) {
    if (!groups.empty() && groups.back().like(node)) {
      groups.back().last = node.last;
      groups.back().ranks.insert(groups.back().ranks.end(), node.ranks.begin(), node.ranks.end());
    } else {
      groups.push_back(std::move(node));
    }
  }
  for (NodeLayout& group : groups) std::ranges::sort(group.ranks);
  return groups;
}

/// Where a rank has several devices, or is several replicas.
std::string share_of_rank(const Plan& plan) {
  if (plan.replicas > 1) return ", " + counted(plan.replicas, "replica");
  return plan.devices_per_rank > 1 ? ", " + std::to_string(plan.devices_per_rank) + " for each" : "";
}

std::string describe(const NodeLayout& group, const Plan& plan) {
  std::string text = group.first == group.last
                         ? "node " + std::to_string(group.first)
                         : "nodes " + std::to_string(group.first) + "-" + std::to_string(group.last);
  text += (group.ranks.size() == 1 ? ": rank " : ": ranks ") + format_ranges(group.ranks) + " on ";
  if (plan.accelerator == "cpu") return text + "cpu" + share_of_rank(plan);
  const auto [devices, shared] = distinct(group.devices);
  const std::vector<int> gpus = distinct(group.gpus).first;
  text += "cuda:" + format_ranges(devices) + (shared ? " in turns" : "") + share_of_rank(plan);
  return gpus == devices ? text : text + " (GPU " + format_ranges(gpus) + " of the machine)";
}

/// A line for each layout of nodes, of the first few.
std::vector<std::string> devices_lines(const Plan& plan) {
  std::vector<std::string> lines;
  if (plan.ranks.empty()) return lines;
  const std::vector<NodeLayout> groups = layouts(plan);
  for (std::size_t i = 0; i < groups.size() && i < kNodeLines; ++i)
    lines.push_back(describe(groups[i], plan));
  if (groups.size() > kNodeLines) {
    lines.push_back("and nodes " + std::to_string(groups[kNodeLines].first) + "-" +
                    std::to_string(groups.back().last));
  }
  return lines;
}

/// ", bucket_bytes=1000"; empty where all are defaults.
std::string given_arguments(const Arguments& arguments) {
  std::string text;
  for (const auto& [name, value] : arguments.values()) {
    if (arguments.given(name)) text += ", " + name + "=" + value;
  }
  return text;
}

/// The memory of the rank that needs most.
std::string memory_text(const std::vector<RankMemory>& memory) {
  const auto most = std::ranges::max_element(memory, {}, &RankMemory::total);
  const bool equal = std::ranges::all_of(memory, [&](const RankMemory& each) { return each == *most; });
  return readable_bytes(most->total()) +
         (equal ? " a rank" : " on rank " + std::to_string(most - memory.begin())) + ": parameters " +
         readable_bytes(most->parameters) + ", gradients " + readable_bytes(most->gradients) +
         ", optimizer " + readable_bytes(most->optimizer) + "; activations not counted";
}

const char* on_off(bool on) { return on ? "on" : "off"; }

using Json = nlohmann::ordered_json;

Json problems_json(const std::vector<Problem>& problems, bool with_hint) {
  Json list = Json::array();
  for (const Problem& problem : problems) {
    Json entry{{"option", problem.option}, {"message", problem.message}};
    if (with_hint) entry["hint"] = problem.hint;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::vector<int> ranks_on_nodes(const Plan& plan) {
  std::vector<int> of_node(static_cast<std::size_t>(plan.num_nodes), 0), of_rank;
  for (const RankPlan& rank : plan.ranks) ++of_node[static_cast<std::size_t>(rank.node)];
  for (const RankPlan& rank : plan.ranks) of_rank.push_back(of_node[static_cast<std::size_t>(rank.node)]);
  return of_rank;
}

std::string devices_text(const Plan& plan) { return joined(devices_lines(plan), "; "); }

std::string to_text(const Plan& plan) {
  std::ostringstream out;
  const auto line = [&out](const std::string& name, const std::string& text) {
    out << "  " << name << std::string(name.size() < 12 ? 12 - name.size() : 1, ' ') << text << '\n';
  };
  line("strategy", plan.strategy + given_arguments(plan.strategy_arguments));
  std::string world = counted(plan.world_size, "rank") + " on " + counted(plan.num_nodes, "node");
  line("world", world + launcher_text(plan.launcher));
  bool first = true;
  for (const std::string& devices : devices_lines(plan)) {
    line(first ? "devices" : "", devices);
    first = false;
  }
  line("precision", plan.precision + (plan.amp_level.empty() ? "" : " (amp_level " + plan.amp_level + ")") +
                        (plan.float32_matmul_precision
                             ? ", float32 products " + std::string(word_of(*plan.float32_matmul_precision))
                             : ""));
  if (plan.accumulate_grad_batches != 1) {
    line("accumulate", std::to_string(plan.accumulate_grad_batches) + " batches per step");
  }
  if (!plan.memory.empty()) line("memory", memory_text(plan.memory));
  line("switches", std::string("benchmark ") + on_off(plan.benchmark) + ", deterministic " +
                       (plan.deterministic_warn_only ? "warn" : on_off(plan.deterministic)) +
                       ", sync_batchnorm " + on_off(plan.sync_batchnorm) +
                       (plan.channels_last ? ", channels_last on" : "") +
                       (plan.recompute_blocks ? ", recompute_blocks on" : ""));
  if (plan.log_gpu_memory) line("logs", "GPU memory, " + std::string(word_of(*plan.log_gpu_memory)));
  if (plan.profiler) line("profiler", std::string(word_of(*plan.profiler)));
  for (const auto* problems : {&plan.warnings, &plan.errors}) {
    for (const Problem& problem : *problems) {
      const bool error = problems == &plan.errors;
      line(error ? "ERROR" : "warning", error ? with_code(to_line(problem), problem.code) : to_line(problem));
    }
  }
  return out.str();
}

std::string to_json(const Plan& plan) {
  Json json = json_of(plan);
  json["warnings"] = problems_json(plan.warnings, false);
  json["errors"] = problems_json(plan.errors, true);
  if (plan.deterministic_warn_only) json["deterministic"] = "warn";
  // Beyond the contract's fields: only what somebody asked for.
  const bool split = plan.devices_per_rank > 1;
  if (split) json["devices_per_rank"] = plan.devices_per_rank;
  for (Json& rank : json["ranks"]) {
    if (!split) rank.erase("devices");
    if (!split || rank["gpus"].empty()) rank.erase("gpus");
  }
  if (plan.replicas > 1) json["replicas"] = plan.replicas;
  for (const auto& [name, value] : plan.strategy_arguments.values()) {
    if (plan.strategy_arguments.given(name)) json["strategy_arguments"][name] = value;
  }
  return text_of_json(json);
}

}  // namespace cxtrain
