#include <nlohmann/json.hpp>

#include "cxtrain/config/plan.h"

namespace cxtrain {
namespace {

using Json = nlohmann::ordered_json;

Json text_or_null(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }

Json ranks_json(const std::vector<RankPlan>& ranks, bool with_parts) {
  Json list = Json::array();
  for (const RankPlan& rank : ranks) {
    list.push_back({{"rank", rank.rank},
                    {"node", rank.node},
                    {"local_rank", rank.local_rank},
                    {"device", rank.device},
                    {"gpu", rank.gpu < 0 ? Json(nullptr) : Json(rank.gpu)},
                    {"uuid", text_or_null(rank.uuid)}});
    if (with_parts) {
      list.back()["devices"] = rank.devices;
      if (!rank.gpus.empty()) list.back()["gpus"] = rank.gpus;
    }
  }
  return list;
}

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
  const bool split = plan.devices_per_rank > 1;
  Json json{{"accelerator", plan.accelerator},
            {"strategy", plan.strategy},
            {"launcher", plan.launcher},
            {"world_size", plan.world_size},
            {"num_nodes", plan.num_nodes},
            {"devices", plan.devices},
            {"ranks", ranks_json(plan.ranks, split)},
            {"precision", plan.precision},
            {"amp_level", text_or_null(plan.amp_level)},
            {"benchmark", plan.benchmark},
            {"deterministic", plan.deterministic_warn_only ? Json("warn") : Json(plan.deterministic)},
            {"log_gpu_memory", plan.log_gpu_memory ? Json(word_of(*plan.log_gpu_memory)) : Json(nullptr)},
            {"accumulate_grad_batches", plan.accumulate_grad_batches},
            {"sync_batchnorm", plan.sync_batchnorm},
            {"warnings", problems_json(plan.warnings, false)},
            {"errors", problems_json(plan.errors, true)}};
  // Beyond the contract's fields: only what somebody asked for.
  if (split) json["devices_per_rank"] = plan.devices_per_rank;
  if (plan.replicas > 1) json["replicas"] = plan.replicas;
  for (const auto& [name, value] : plan.strategy_arguments.values()) {
    if (plan.strategy_arguments.given(name)) json["strategy_arguments"][name] = value;
  }
  if (plan.float32_matmul_precision)
    json["float32_matmul_precision"] = word_of(*plan.float32_matmul_precision);
  if (plan.channels_last) json["channels_last"] = true;
  // Texts come from command lines and files, which need not be UTF-8; a plan is printed all the same.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace cxtrain
