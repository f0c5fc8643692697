#include "cxtrain/report/progress_report.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "cxtrain/base/shallow_json.h"

namespace cxtrain {
namespace {

using ProgressJson = nlohmann::ordered_json;

template <class Value>
void read_into(const ProgressJson& json, const char* key, Value& value) {
  const auto found = json.find(key);
  if (found != json.end() && !found->is_null()) value = found->get<Value>();
}

/// A label's value, as the format wants it.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string prometheus_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return ProgressJson(value).dump();
}

class Gauges {
 public:
  explicit Gauges(const std::string& run) : run_("run=\"" + escaped(run) + '"') {}

  void begin(const std::string& name, const char* help) {
    text_ += "# HELP cxtrain_" + name + ' ' + help + "\n# TYPE cxtrain_" + name + " gauge\n";
  }
  void value(const std::string& name, double value, const std::string& label = "") {
    text_ += "cxtrain_" + name + '{' + run_ + label + "} " + prometheus_number(value) + '\n';
  }
  void add(const std::string& name, const char* help, double number) {
    begin(name, help);
    value(name, number);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string run_, text_;
};

}  // namespace

std::string to_json(const ProgressReport& report) {
  ProgressJson json{{"time", report.time},
                    {"run", report.run},
                    {"host", report.host},
                    {"ranks", report.ranks},
                    {"nodes", report.nodes},
                    {"epoch", report.epoch},
                    {"max_epochs", report.max_epochs},
                    {"batch", report.batch},
                    {"batches", report.batches},
                    {"step", report.step},
                    {"max_steps", report.max_steps},
                    {"steps_per_second", report.steps_per_second},
                    {"samples_per_second", report.samples_per_second},
                    {"seconds_left", nullptr},
                    {"checkpoints", report.checkpoints},
                    {"checkpoint_folder", report.checkpoint_folder},
                    {"training", report.training},
                    {"metrics", ProgressJson::object()}};
  if (report.seconds_left) json["seconds_left"] = *report.seconds_left;
  for (const auto& [name, value] : report.metrics) json["metrics"][name] = value;
  return json.dump(-1, ' ', false, ProgressJson::error_handler_t::replace);
}

std::optional<ProgressReport> parse_progress(std::string_view text) {
  const auto json = parse_shallow_json<ProgressJson>(text);  // where the metrics lie
  if (!json.is_object()) return std::nullopt;
  ProgressReport report;
  try {
    read_into(json, "time", report.time);
    read_into(json, "run", report.run);
    read_into(json, "host", report.host);
    read_into(json, "ranks", report.ranks);
    read_into(json, "nodes", report.nodes);
    read_into(json, "epoch", report.epoch);
    read_into(json, "max_epochs", report.max_epochs);
    read_into(json, "batch", report.batch);
    read_into(json, "batches", report.batches);
    read_into(json, "step", report.step);
    read_into(json, "max_steps", report.max_steps);
    read_into(json, "steps_per_second", report.steps_per_second);
    read_into(json, "samples_per_second", report.samples_per_second);
    read_into(json, "checkpoints", report.checkpoints);
    read_into(json, "checkpoint_folder", report.checkpoint_folder);
    read_into(json, "training", report.training);
    double left = -1;
    read_into(json, "seconds_left", left);
    if (left >= 0) report.seconds_left = left;
    const ProgressJson metrics = json.value("metrics", ProgressJson::object());
    for (const auto& [name, value] : metrics.items()) {
      report.metrics.emplace_back(
          name, value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
    }
  } catch (const ProgressJson::exception&) {
    return std::nullopt;
  }
  return report;
}

std::string to_prometheus(const ProgressReport& report) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  Gauges gauges(report.run);
  gauges.add("training", "1 while the training goes on.", report.training ? 1 : 0);
  gauges.add("updated_seconds", "When these numbers were so, in seconds since 1970.", report.time);
  gauges.add("ranks", "Ranks that train.", report.ranks);
  gauges.add("epoch", "The running epoch, from 0.", number(report.epoch));
  gauges.add("batch", "Batches of the epoch that are done on each rank.", number(report.batch));
  gauges.add("global_step", "Optimizer steps done.", number(report.step));
  gauges.add("steps_per_second", "Optimizer steps per second, lately.", report.steps_per_second);
  gauges.add("samples_per_second", "Samples per second over all ranks, lately.", report.samples_per_second);
  gauges.add("checkpoints", "Checkpoints that have come to the disk.", number(report.checkpoints));
  if (report.seconds_left) gauges.add("seconds_left", "At the speed so far.", *report.seconds_left);
  if (!report.metrics.empty()) gauges.begin("metric", "What the progress bar shows.");
  for (const auto& [name, value] : report.metrics)
    gauges.value("metric", value, ",name=\"" + escaped(name) + '"');
  return gauges.take();
}

}  // namespace cxtrain
