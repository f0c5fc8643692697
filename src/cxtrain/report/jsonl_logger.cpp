#include "cxtrain/report/file_loggers.h"

#include <nlohmann/json.hpp>

namespace cxtrain {

JsonlLogger::JsonlLogger(Filesystem& files, const std::string& directory)
    : file_(files, directory + "/metrics.jsonl") {}

void JsonlLogger::log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) {
  nlohmann::ordered_json row{{"step", step}, {"epoch", epoch}};
  for (const auto& [name, value] : metrics) row[name] = value;
  // A name that is not UTF-8 must not end the run.
  file_.append(row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

}  // namespace cxtrain
