#include "cxtrain/report/run_json.h"

#include <nlohmann/json.hpp>

namespace cxtrain {

std::string to_json(const RunSummary& summary) {
  const nlohmann::ordered_json json{
      {"status", summary.status},
      {"exit_code", summary.exit_code},
      {"world_size", summary.world_size},
      {"strategy", summary.strategy},
      {"precision", summary.precision},
      {"epochs", summary.epochs},
      {"global_step", summary.global_step},
      {"metrics", summary.metrics},
      {"seconds", summary.seconds},
      {"samples_per_second", summary.samples_per_second},
      {"first_step_seconds", summary.first_step_seconds},
      {"peak_memory_bytes", summary.peak_memory_bytes},
      {"parameters_sha256", summary.parameters_sha256},
  };
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace cxtrain
