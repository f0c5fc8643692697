#include "cxtrain/report/file_loggers.h"

#include <nlohmann/json.hpp>

#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/config/values.h"
#include "cxtrain/report/read_run.h"
#include "cxtrain/state/state_dict.h"

namespace cxtrain {
namespace {

const std::string& require_folder(const RunFolder& folder, const char* name) {
  if (!folder.path.empty()) return folder.path;
  throw ConfigError(std::string("loggers.") + name, "has no folder to write to: the run has no logger",
                    "drop it, or logger=false, fast_dev_run and barebones", MessageCode::conflicting_options);
}

constexpr const char* kJsonl = "/metrics.jsonl";

}  // namespace

CsvLogger::CsvLogger(const RunFolder& folder) : CsvLogger(folder.files, require_folder(folder, "csv")) {}

JsonlLogger::JsonlLogger(const RunFolder& folder)
    : JsonlLogger(folder.files, require_folder(folder, "jsonl")) {}

TensorBoardLogger::TensorBoardLogger(const RunFolder& folder)
    : TensorBoardLogger(folder.files, require_folder(folder, "tensorboard")) {}

JsonlLogger::JsonlLogger(Filesystem& files, const std::string& directory)
    : files_(files), file_(files, directory + kJsonl) {}

void JsonlLogger::log_hyperparams(const Hyperparameters& hparams) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, text] : hparams) {
    nlohmann::ordered_json& member = object[name];
    std::visit([&member](const auto& value) { member = value; }, typed_value(text));
    if (const auto whole = parse_integer(text)) member = *whole;
  }
  const std::string folder = file_.path().substr(0, file_.path().rfind('/'));
  write_atomically(files_, folder + "/hparams.json", text_of_json(object, 2) + '\n');
}

void JsonlLogger::log(std::int64_t step, std::int64_t epoch, std::span<const Metric> metrics) {
  nlohmann::ordered_json row{{"step", step}, {"epoch", epoch}};
  for (const auto& [name, value] : metrics) row[name] = value;
  // A name that is not UTF-8 must not end the run.
  file_.append(row.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n');
}

void JsonlLogger::on_save_checkpoint(StateDict& state) { state.set("bytes", file_.size()); }

void JsonlLogger::on_load_checkpoint(const StateDict& state, const RunFolder& from) {
  if (from.path.empty()) return;
  const std::string source = from.path + kJsonl;
  const std::string rows = read_saved_rows(files_, source, state.integer("bytes"), whole_lines);
  if (source == file_.path()) {
    file_.cut(rows.size());
  } else {
    file_.append(rows);
    file_.flush();
  }
}

}  // namespace cxtrain
