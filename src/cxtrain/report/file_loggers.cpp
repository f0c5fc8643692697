#include "cxtrain/report/file_loggers.h"

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

const std::string& require_folder(const RunFolder& folder, const char* name) {
  if (!folder.path.empty()) return folder.path;
  throw ConfigError(std::string("loggers.") + name, "has no folder to write to: the run has no logger",
                    "drop it, or logger=false, fast_dev_run and barebones", MessageCode::conflicting_options);
}

}  // namespace

CsvLogger::CsvLogger(const RunFolder& folder) : CsvLogger(folder.files, require_folder(folder, "csv")) {}

JsonlLogger::JsonlLogger(const RunFolder& folder)
    : JsonlLogger(folder.files, require_folder(folder, "jsonl")) {}

TensorBoardLogger::TensorBoardLogger(const RunFolder& folder)
    : TensorBoardLogger(folder.files, require_folder(folder, "tensorboard")) {}

}  // namespace cxtrain
