#include "cxtrain/report/file_loggers.h"

namespace cxtrain {
namespace {

template <class Logger>
void add_file_logger(Registry& registry, const char* name, const char* help) {
  if (registry.find(MetricLogger::kKind, name) != nullptr) return;
  registry.add<MetricLogger>(name, help, {}, [name](const Arguments&, const RunFolder& folder) {
    if (folder.path.empty()) {
      throw ConfigError(std::string("loggers.") + name, "has no folder to write to: the run has no logger",
                        "drop it, or logger=false, fast_dev_run and barebones",
                        MessageCode::conflicting_options);
    }
    return std::make_unique<Logger>(folder.files, folder.path);
  });
}

}  // namespace

void register_file_loggers(Registry& registry) {
  add_file_logger<CsvLogger>(registry, "csv", "metrics.csv");
  add_file_logger<JsonlLogger>(registry, "jsonl", "metrics.jsonl");
  add_file_logger<TensorBoardLogger>(registry, "tensorboard", "events.out.tfevents.*");
}

}  // namespace cxtrain
