#include "cxtrain/base/json_fields.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {
namespace {

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
