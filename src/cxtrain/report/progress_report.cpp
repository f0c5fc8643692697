#include "cxtrain/report/progress_report.h"

#include <cmath>

#include "cxtrain/base/json_fields.h"

namespace cxtrain {
namespace {

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
  return nlohmann::json(value).dump();
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

std::string to_json(const ProgressReport& report) { return text_of_json(json_of(report)); }

std::optional<ProgressReport> parse_progress(std::string_view text) {
  auto report = parse_struct<ProgressReport>(text);
  if (report && report->seconds_left.value_or(0) < 0) report->seconds_left.reset();
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
