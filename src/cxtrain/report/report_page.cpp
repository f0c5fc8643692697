#include "cxtrain/report/report_page.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <random>
#include <set>
#include <sstream>
#include <system_error>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/base/version.h"
#include "cxtrain/report/progress_line.h"
#include "cxtrain/report/report_style.h"
#include "cxtrain/report/svg_chart.h"

namespace cxtrain {
namespace {

/// The page has so many colours; further runs get ones of their own around the circle of hues.
constexpr std::size_t kColors = 8;

std::string color_of(std::size_t i) {
  if (i < kColors) return "var(--c" + std::to_string(i) + ")";
  constexpr std::size_t kGoldenAngle = 137;
  return "hsl(" + std::to_string(i * kGoldenAngle % 360) + " 62% 55%)";
}

/// "version_3", or with the folder above cxtrain_logs: "gpt/version_3".
std::string short_name(const std::string& run, bool with_root) {
  std::error_code nowhere;  // "." has no name
  std::filesystem::path path = std::filesystem::absolute(run, nowhere);
  if (nowhere) path = run;
  path = path.lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string name = path.filename().string();
  std::filesystem::path above = path.parent_path();
  if (above.filename() == "cxtrain_logs") above = above.parent_path();
  const std::string root = above.filename().string();
  return !with_root || root.empty() ? name : root + "/" + name;
}

/// As short as tells the runs apart.
std::vector<std::string> names_of_runs(std::span<const RunRecord> runs) {
  for (const bool with_root : {false, true}) {
    auto names = transformed(runs, [&](const auto& run) { return short_name(run.status.run, with_root); });
    if (std::set(names.begin(), names.end()).size() == names.size()) return names;
  }
  return transformed(runs, [](const RunRecord& run) { return run.status.run; });
}

// ------------------------------------------------------------------ charts

/// "val_loss" is the loss of the stage "val".
struct MetricName {
  std::string base, stage;
};

constexpr std::array<std::string_view, 3> kStages{"train", "val", "test"};

MetricName parse_metric_name(const std::string& name) {
  for (const std::string_view stage : kStages) {
    const std::size_t size = stage.size();
    if (name.size() > size + 1 && name.starts_with(stage) && (name[size] == '_' || name[size] == '/'))
      return {name.substr(size + 1), std::string(stage)};
  }
  return {name, ""};
}

/// Of one run, a stage has the same colour in all charts.
std::size_t color_of_stage(const std::string& stage) {
  return static_cast<std::size_t>(std::ranges::find(kStages, stage) - kStages.begin());
}

struct ChartGroup {
  std::string title;
  std::vector<std::string> names;  ///< of metrics
  bool is_rate = false;
};

bool is_learning_rate(const std::string& name) { return name == "lr" || name.starts_with("lr-"); }

/// The loss first, then what else the model logged, what belongs to a family ("grad_norm/...") after that,
/// and the learning rates at the end.
std::vector<ChartGroup> groups_of(std::span<const RunRecord> runs) {
  std::set<std::string> names;
  for (const RunRecord& run : runs) {
    for (const auto& [name, curve] : run.metrics) names.insert(name);
  }
  std::map<std::pair<int, std::string>, ChartGroup> groups;
  for (const std::string& name : names) {
    const MetricName parsed = parse_metric_name(name);
    const bool rate = is_learning_rate(name);
    const bool in_family = parsed.base.find('/') != std::string::npos || parsed.base.starts_with("grad_");
    const int order = rate ? 4 : in_family ? 3 : parsed.base == "loss" ? 0 : parsed.stage.empty() ? 2 : 1;
    ChartGroup& group = groups[{order, rate ? "" : parsed.base}];
    group.title = rate ? "learning rate" : parsed.base;
    group.is_rate = rate;
    group.names.push_back(name);
  }
  std::vector<ChartGroup> ordered;
  for (auto& [order, group] : groups) {
    const auto stage = [](const std::string& name) { return color_of_stage(parse_metric_name(name).stage); };
    std::ranges::stable_sort(group.names, [&](const auto& a, const auto& b) { return stage(a) < stage(b); });
    ordered.push_back(std::move(group));
  }
  return ordered;
}

class PageWriter {
 public:
  PageWriter(std::span<const RunRecord> runs, double written_at)
      : runs_(runs), written_at_(written_at), names_(names_of_runs(runs)), several_(runs.size() > 1) {
    for (const RunRecord& run : runs) configs_.push_back(config_lines(run.config));
    if (several_) differences_ = config_differences(configs_);
  }

  std::string write() {
    write_head();
    for (std::size_t i = 0; i < runs_.size(); ++i) write_run(i);
    write_charts();
    out_ << "<div class=\"tables\">";
    write_metrics();
    write_facts();
    out_ << "</div>";
    write_differences();
    write_events();
    write_configs();
    out_ << "<footer>Written by cxtrain " << CXTRAIN_VERSION << " on " << time_text() << ".</footer></main>"
         << "<script nonce=\"" << nonce_ << "\">" << kReportScript << "</script></body></html>\n";
    return out_.str();
  }

 private:
  std::string time_text() const { return date_text(written_at_, "%Y-%m-%d %H:%M:%S"); }

  /// The policy lets the browser load nothing, and run no script but the page's own.
  void write_head() {
    std::random_device random;
    nonce_ = std::to_string(random()) + std::to_string(random());
    const std::string title = shortened(joined(names_), 200);
    out_ << "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">"
         << "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
            "'unsafe-inline'; script-src 'nonce-"
         << nonce_ << "'\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>"
         << escape_html(title) << "</title><style>" << kReportStyle << "</style></head><body><main><h1>"
         << escape_html(title) << "</h1><p class=\"sub\">"
         << (several_ ? std::to_string(runs_.size()) + " runs side by side" : "Training run") << ", as of "
         << time_text() << "</p>";
  }

  std::string swatch(std::size_t i) const {
    return several_ ? "<span class=\"swatch\" style=\"--c:" + color_of(i) + "\"></span>" : "";
  }

  void write_tile(const std::string& value, const std::string& name, const char* kind = "") {
    if (value.empty()) return;
    out_ << "<div class=\"tile\"><b class=\"" << kind << "\">" << escape_html(value) << "</b><span>"
         << escape_html(name) << "</span></div>";
  }

  static std::string fact(const RunRecord& run, const std::string& name) {
    const auto found = std::ranges::find(run.facts, name, &std::pair<std::string, std::string>::first);
    return found == run.facts.end() ? std::string() : found->second;
  }

  void write_run(std::size_t i) {
    const RunRecord& run = runs_[i];
    if (several_) out_ << "<h2>" << swatch(i) << escape_html(names_[i]) << "</h2>";
    const RunStatus& status = run.status;
    const bool ended = status.state == RunStatus::State::ended;
    const bool died = status.state == RunStatus::State::died;
    std::string word = died ? "died" : ended ? status.end : "running";
    if (status.state == RunStatus::State::starting) word = "starting";
    const bool bad = died || (ended && status.exit_code != 0 && status.end == "failed");
    out_ << "<div class=\"tiles\">";
    write_tile(word, ended ? "exit status " + std::to_string(status.exit_code) : "state",
               bad                              ? "bad"
               : ended && status.exit_code == 0 ? "good"
                                                : "");
    write_tile(fact(run, "trained"), "trained");
    write_tile(fact(run, "time"), "time of training");
    write_tile(fact(run, "samples/s"), "samples/s, all ranks");
    const std::string strategy = fact(run, "strategy"), precision = fact(run, "precision");
    write_tile(run.ranks,
               strategy.empty() ? "world" : strategy + (precision.empty() ? "" : ", " + precision));
    for (const char* name : {"val_loss", "train_loss"}) {
      const auto curve = run.metrics.find(name);
      if (curve == run.metrics.end() || !curve->second.has_values()) continue;
      write_tile(format_metric(curve->second.last().y), std::string(name) + ", last");
      break;
    }
    out_ << "</div>";
    for (const std::string& note : run.notes) out_ << "<div class=\"note\">" << escape_html(note) << "</div>";
  }

  // ---------------------------------------------------------------- charts

  void add_marks(Chart& chart) const {
    using Kind = RunRecord::Mark::Kind;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      for (const RunRecord::Mark& mark : runs_[i].marks) {
        const bool resumed = mark.kind == Kind::restart, slow = mark.kind == Kind::straggler;
        const std::string at = " at step " + std::to_string(mark.step);
        const std::string text = slow ? mark.text : (resumed ? "resumed" : "checkpoint") + at;
        chart.marks.push_back({.kind = mark.kind,
                               .x = static_cast<double>(mark.step),
                               .color = slow       ? "var(--warn)"
                                        : !resumed ? "var(--axis)"
                                        : several_ ? color_of(i)
                                                   : "var(--muted)",
                               .text = several_ ? names_[i] + ": " + text : text});
      }
    }
  }

  std::vector<ChartSeries> keys_of_runs(const Chart& chart) const {
    std::vector<ChartSeries> keys;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const bool drawn =
          std::ranges::any_of(chart.series, [&](const auto& series) { return series.color == color_of(i); });
      if (several_ && drawn) keys.push_back({names_[i], color_of(i)});
    }
    return keys;
  }

  /// A colour for each run; of one run, a colour for each metric.
  void write_group(const ChartGroup& group) {
    Chart chart;
    chart.title = group.title;
    chart.may_smooth = chart.may_log = !group.is_rate;
    std::vector<ChartSeries> stages;
    const bool staged = std::ranges::any_of(
        group.names, [](const std::string& name) { return !parse_metric_name(name).stage.empty(); });
    for (std::size_t n = 0; n < group.names.size(); ++n) {
      const std::string& name = group.names[n];
      const std::string stage = parse_metric_name(name).stage;
      const std::string shown = group.is_rate || stage.empty() ? name : stage;
      const bool dashed = several_ && n > 0;
      const std::size_t color = staged ? color_of_stage(stage) : n;
      for (std::size_t i = 0; i < runs_.size(); ++i) {
        const auto curve = runs_[i].metrics.find(name);
        if (curve == runs_[i].metrics.end()) continue;
        chart.series.push_back({several_ ? names_[i] + " " + shown : shown, color_of(several_ ? i : color),
                                dashed, &curve->second});
      }
      stages.push_back({shown, several_ ? "var(--muted)" : color_of(color), dashed});
    }
    add_marks(chart);
    std::vector<ChartSeries> keys = keys_of_runs(chart);
    const bool says_more = stages.size() > 1 || stages.front().name != group.title;
    if (says_more) keys.insert(keys.end(), stages.begin(), stages.end());
    out_ << figure(chart, keys);
  }

  void write_curve_of_runs(Chart chart, Curve RunRecord::*curve) {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if ((runs_[i].*curve).has_values())
        chart.series.push_back({several_ ? names_[i] : chart.title, color_of(i), false, &(runs_[i].*curve)});
    }
    if (chart.series.empty()) return;
    if (!chart.log_x) add_marks(chart);
    out_ << figure(chart, keys_of_runs(chart));
  }

  void write_lr_sweep() {
    Chart chart;
    chart.title = "learning rate finder";
    chart.unit = "smoothed loss";
    chart.x_title = "learning rate";
    chart.log_x = true;
    chart.may_smooth = false;
    for (const RunRecord& run : runs_) {
      if (!run.lr_suggestion || chart.line_at) continue;
      chart.line_at = std::log10(*run.lr_suggestion);
      chart.line_text = "chosen: " + format_metric(*run.lr_suggestion);
    }
    write_curve_of_runs(chart, &RunRecord::lr_sweep);
  }

  bool has_mark(RunRecord::Mark::Kind kind) const {
    return std::ranges::any_of(runs_, [kind](const RunRecord& run) {
      return std::ranges::any_of(run.marks, [kind](const auto& mark) { return mark.kind == kind; });
    });
  }

  void write_key_of_marks() {
    const auto key = [this](const char* drawing, const char* text) {
      out_ << "<span class=\"key\" style=\"margin-right:16px\"><svg class=\"key\" viewBox=\"0 0 12 12\" "
              "style=\"--c:var(--muted)\">"
           << drawing << "</svg>" << text << "</span>";
    };
    if (has_mark(RunRecord::Mark::Kind::checkpoint))
      key("<path class=\"checkpoint\" d=\"M6 3l4 6h-8Z\"/>", "checkpoint");
    if (has_mark(RunRecord::Mark::Kind::restart)) key("<path class=\"restart\" d=\"M6 0V12\"/>", "resumed");
    if (has_mark(RunRecord::Mark::Kind::straggler))
      key("<path class=\"straggler\" style=\"--c:var(--warn)\" d=\"M2 3h8l-4 7Z\"/>",
          "a rank was slower than the others");
    const bool not_finite = std::ranges::any_of(runs_, [](const RunRecord& run) {
      return std::ranges::any_of(run.metrics,
                                 [](const auto& metric) { return metric.second.not_finite() > 0; });
    });
    if (not_finite) key("<path class=\"nan\" d=\"M6 2v8\"/>", "not finite");
    key("<path class=\"raw\" d=\"M0 9L3 3L6 8L9 2L12 6\"/>", "pale: all values; full: their moving mean");
  }

  void write_charts() {
    const std::vector<ChartGroup> groups = groups_of(runs_);
    out_ << "<h2>Curves</h2><p class=\"sub\" style=\"margin-bottom:10px\">";
    write_key_of_marks();
    out_ << "</p><div class=\"charts\">";
    for (const ChartGroup& group : groups) write_group(group);
    Chart time;
    time.title = "step time";
    time.unit = "seconds, pauses included";
    write_curve_of_runs(time, &RunRecord::step_seconds);
    write_lr_sweep();
    out_ << "</div>";
  }

  // ---------------------------------------------------------------- tables

  void write_metrics() {
    std::set<std::string> metrics;
    for (const RunRecord& run : runs_) {
      for (const auto& [name, curve] : run.metrics) metrics.insert(name);
    }
    if (metrics.empty()) return;
    out_ << "<section><h2>Metrics</h2><div class=\"scroll\"><table><thead><tr><th>metric</th>"
         << (several_ ? "<th>run</th>" : "")
         << "<th class=\"n\">last</th><th class=\"n\">lowest</th><th class=\"n\">highest</th>"
         << "<th class=\"n\">values</th></tr></thead><tbody>";
    for (const std::string& name : metrics) {
      bool first = true;
      for (std::size_t i = 0; i < runs_.size(); ++i) {
        const auto found = runs_[i].metrics.find(name);
        if (found == runs_[i].metrics.end()) continue;
        write_metric(first ? name : "", i, found->second);
        first = false;
      }
    }
    out_ << "</tbody></table></div></section>";
  }

  void write_metric(const std::string& name, std::size_t run, const Curve& curve) {
    const auto cell = [this, &curve](const Curve::Place& place) {
      out_ << "<td class=\"n\">";
      if (curve.has_values())
        out_ << format_metric(place.y) << " <small>step " << std::to_string(std::llround(place.x))
             << "</small>";
      out_ << "</td>";
    };
    out_ << "<tr><td>" << escape_html(name) << "</td>";
    if (several_) out_ << "<td>" << swatch(run) << escape_html(names_[run]) << "</td>";
    cell(curve.last());
    cell(curve.lowest());
    cell(curve.highest());
    out_ << "<td class=\"n\">" << curve.points();
    if (curve.not_finite() > 0)
      out_ << " <small class=\"bad\">" << curve.not_finite() << " not finite</small>";
    out_ << "</td></tr>";
  }

  void write_row(const std::string& name, std::span<const std::string> values, bool differs) {
    out_ << "<tr" << (differs ? " class=\"differs\"" : "") << "><td>" << escape_html(name) << "</td>";
    for (const std::string& value : values) out_ << "<td>" << escape_html(value) << "</td>";
    out_ << "</tr>";
  }

  void write_heads(const char* first) {
    out_ << "<thead><tr><th>" << first << "</th>";
    for (std::size_t i = 0; i < runs_.size(); ++i)
      out_ << "<th>" << swatch(i) << escape_html(names_[i]) << "</th>";
    out_ << "</tr></thead>";
  }

  void write_facts() {
    std::vector<std::string> rows;
    for (const RunRecord& run : runs_) {
      for (const auto& [name, value] : run.facts) {
        if (std::ranges::find(rows, name) == rows.end()) rows.push_back(name);
      }
    }
    out_ << "<section><h2>" << (several_ ? "Runs" : "Run") << "</h2><div class=\"scroll\"><table>";
    if (several_) write_heads("");
    out_ << "<tbody>";
    for (const std::string& name : rows)
      write_row(name, transformed(runs_, [&](const RunRecord& run) { return fact(run, name); }), false);
    out_ << "</tbody></table></div></section>";
  }

  void write_differences() {
    if (!several_) return;
    out_ << "<h2>Differences of config.yaml</h2>";
    if (differences_.empty()) {
      out_ << "<p class=\"sub\">none</p>";
      return;
    }
    out_ << "<div class=\"scroll\"><table>";
    write_heads("option");
    out_ << "<tbody>";
    constexpr std::size_t kMaxRows = 200;
    std::size_t rows = 0;
    for (const auto& [key, values] : differences_) {
      if (++rows > kMaxRows) break;
      const auto shown = transformed(values, [](const auto& value) { return shortened(value, 300); });
      write_row(shortened(key, 300), shown, true);
    }
    out_ << "</tbody></table></div>";
    if (rows > kMaxRows)
      out_ << "<p class=\"sub\">and " << differences_.size() - kMaxRows << " more, marked below</p>";
  }

  void write_details(std::size_t i, const std::string& title, bool open) {
    out_ << "<details" << (open ? " open" : "") << "><summary>" << swatch(i) << escape_html(title)
         << (several_ ? escape_html(" of " + names_[i]) : "") << "</summary><pre>";
  }

  void write_events() {
    bool first = true;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].events.empty()) continue;
      if (first) out_ << "<h2>Restarts, stragglers, warnings, errors</h2>";
      first = false;
      constexpr std::size_t kFew = 12;
      write_details(i, "rank_0.log", runs_[i].events.size() <= kFew);
      for (const std::string& line : runs_[i].events) out_ << escape_html(line) << '\n';
      out_ << "</pre></details>";
    }
  }

  void write_configs() {
    out_ << "<h2>Configuration</h2>";
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      write_details(i, configs_[i].empty() ? "config.yaml is missing or empty" : "config.yaml", false);
      for (const ConfigLine& line : configs_[i]) {
        const bool differs = differences_.contains(line.key);
        out_ << (differs ? "<mark>" : "") << escape_html(line.text) << (differs ? "</mark>" : "\n");
      }
      out_ << "</pre></details>";
    }
  }

  std::span<const RunRecord> runs_;
  double written_at_;
  std::vector<std::string> names_;
  bool several_;
  std::vector<std::vector<ConfigLine>> configs_;
  std::map<std::string, std::vector<std::string>> differences_;
  std::string nonce_;
  std::ostringstream out_;
};

}  // namespace

std::string report_page(std::span<const RunRecord> runs, double written_at) {
  return PageWriter(runs, written_at).write();
}

}  // namespace cxtrain
