#include "cxtrain/scaling/study_report.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "cxtrain/base/command.h"
#include "cxtrain/base/text.h"
#include "cxtrain/report/curve.h"
#include "cxtrain/report/report_style.h"
#include "cxtrain/report/svg_chart.h"

namespace cxtrain {
namespace {

/// Without an interval if it has no width, as after one round.
std::string with_interval(const Estimate& estimate, const char* format, const char* unit) {
  std::string text = formatted(format, estimate.value) + unit;
  if (estimate.low < estimate.high)
    text += " (" + formatted(format, estimate.low) + " to " + formatted(format, estimate.high) + ")";
  return text;
}

std::string step_text(const Estimate& step) {
  return with_interval({1e3 * step.value, 1e3 * step.low, 1e3 * step.high}, "%.3g", "");
}

std::string share_text(const Estimate& share) {
  return with_interval({100 * share.value, 100 * share.low, 100 * share.high}, "%.0f", " %");
}

std::string rate_text(double rate) { return formatted(rate < 100 ? "%.3g" : "%.0f", rate); }

constexpr const char* kPhasesLegend =
    "Medians of the steps, means over the ranks. Ranks wait for each other in agree (the vote at the end of "
    "a "
    "step), reduce (gradients) and publish (updated parameters). In the tables, waiting is the share of "
    "these "
    "three, MB a rank the memory of the largest rank at the end, start-up the time from the start of the "
    "program to the end of the first step.";

using Row = std::vector<std::string>;

/// The sizes of a study as a table; the first row has the headings.
std::vector<Row> table_of_sizes(const StudyResult& result) {
  std::vector<Row> rows{{"ranks", "nodes", "step, ms (95 %)", "samples/s", "speedup", "efficiency (95 %)",
                         "waiting", "MB a rank"}};
  for (const SizeResult& size : result.sizes) {
    Row row{std::to_string(size.size.ranks), std::to_string(size.size.nodes)};
    if (!size.measured()) {
      row.insert(row.end(), {"-", "-", "-", "-", "-", "-"});
    } else {
      double all = 0;
      for (const auto& [name, seconds] : size.phases) all += seconds;
      row.insert(row.end(), {step_text(size.step), rate_text(size.samples_per_second),
                             formatted("%.2f", size.speedup.value), share_text(size.efficiency),
                             formatted("%.0f %%", all > 0 ? 100 * waiting_of(size.phases) / all : 0),
                             formatted("%.0f", 1e-6 * static_cast<double>(size.pss_bytes))});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Phases of a step by size, in ms; those that are short everywhere are left out.
std::vector<Row> table_of_phases(const StudyResult& result) {
  std::map<std::string, double> longest;
  for (const SizeResult& size : result.sizes) {
    for (const auto& [name, seconds] : size.phases)
      longest[name] = std::max(longest[name], size.step.value > 0 ? seconds / size.step.value : 0);
  }
  constexpr double kShown = 0.01;
  std::vector<Row> rows{{"ms of a step"}};
  for (const SizeResult& size : result.sizes) rows.front().push_back(name_of(size.size));
  std::vector<std::string> names;
  for (const auto& [name, share] : longest) {
    if (share >= kShown) names.push_back(name);
  }
  std::ranges::stable_sort(names, [&](const auto& a, const auto& b) { return longest[a] > longest[b]; });
  for (const std::string& name : names) {
    Row row{name};
    for (const SizeResult& size : result.sizes) {
      const auto found = size.phases.find(name);
      row.push_back(found == size.phases.end() ? "-" : formatted("%.3g", 1e3 * found->second));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string text_table(const std::vector<Row>& rows) {
  return aligned(
      rows, [](std::size_t) { return true; }, "  ");
}

std::string markdown_table(const std::vector<Row>& rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "| " + joined(rows[i], " | ") + " |\n";
    if (i > 0) continue;
    for (std::size_t column = 0; column < rows[i].size(); ++column) text += column == 0 ? "|---|" : "---:|";
    text += '\n';
  }
  return text;
}

std::string html_table(const std::vector<Row>& rows) {
  std::string text = "<div class=\"scroll\"><table><thead>";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string cell = i == 0 ? "th" : "td";
    text += "<tr>";
    for (const std::string& each : rows[i])
      text += "<" + cell + (&each == rows[i].data() ? "" : " class=\"n\"") + ">" + escape_html(each) + "</" +
              cell + ">";
    text += i == 0 ? "</tr></thead><tbody>" : "</tr>";
  }
  return text + "</tbody></table></div>";
}

std::string method_of(const StudyResult& result) {
  const Study& study = result.study;
  std::string text = study.mode == ScalingMode::weak
                         ? "Weak scaling: the batch of each rank is the same for all sizes."
                         : "Strong scaling: the batch of all ranks together is the same for all sizes.";
  text +=
      " Each size was trained " + std::to_string(study.rounds) +
      (study.rounds == 1 ? " time" : " times, in rounds with all sizes in random order") +
      ". The step is the median of a training's optimizer steps. Speedups compare trainings of one round; "
      "the table has their median and a 95 % interval (bootstrap over the rounds). Efficiency is the speedup "
      "divided by how many times as many ranks there are as in the smallest size.";
  if (study.threads > 0)
    text += " Each rank of every size computes with " + counted(study.threads, "thread") + ".";
  return text;
}

std::string facts_of(const StudyResult& result) {
  std::string text = result.program + ", " + result.date;
  if (!result.strategy.empty()) text += "; strategy " + result.strategy + ", precision " + result.precision;
  if (result.cores > 0) text += "; " + counted(result.cores, "core") + " a node";
  return text;
}

std::string command_of(const StudyResult& result) {
  const auto ranks = [](const StudySize& size) { return std::to_string(size.ranks); };
  const auto nodes = [](const StudySize& size) { return std::to_string(size.nodes); };
  return "cxtrain_mpi scaling --mode " + std::string(word_of(result.study.mode)) + " --ranks " +
         joined(result.study.sizes, ",", ranks) + " --nodes " + joined(result.study.sizes, ",", nodes) +
         " --repeats " + std::to_string(result.study.rounds) + (result.study.options.empty() ? "" : " ") +
         joined(result.study.options, " ", shell_quoted);
}

/// How many times as fast each doubling is, for an application for computing time.
std::vector<Row> table_of_doublings(const StudyResult& result) {
  std::vector<Row> rows{
      {"ranks", "nodes", "start-up, s", "efficiency", "speedup per doubling", "1.5 per doubling"}};
  const SizeResult* before = nullptr;
  for (const SizeResult& size : result.sizes) {
    if (!size.measured()) continue;
    Row row{std::to_string(size.size.ranks), std::to_string(size.size.nodes),
            formatted("%.1f", size.first_step_seconds), share_text(size.efficiency)};
    const double doublings =
        before == nullptr ? 0 : std::log2(static_cast<double>(size.size.ranks) / before->size.ranks);
    if (doublings <= 0 || before->speedup.value <= 0 || size.speedup.value <= 0) {
      row.insert(row.end(), {"-", "-"});
    } else {
      const double growth = std::pow(size.speedup.value / before->speedup.value, 1 / doublings);
      row.push_back(formatted("%.2f", growth));
      row.emplace_back(growth >= 1.5 ? "yes" : "no");
    }
    before = &size;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string charts_of(const StudyResult& result) {
  Curve rate, ideal_rate, efficiency, low, high, wanted;
  const SizeResult* base = nullptr;
  for (const SizeResult& size : result.sizes) {
    if (!size.measured()) continue;
    if (base == nullptr) base = &size;
    const double ranks = size.size.ranks;
    rate.add(ranks, size.samples_per_second);
    ideal_rate.add(ranks, base->samples_per_second * ranks / base->size.ranks);
    efficiency.add(ranks, 100 * size.efficiency.value);
    low.add(ranks, 100 * size.efficiency.low);
    high.add(ranks, 100 * size.efficiency.high);
    wanted.add(ranks, 100 * kWantedEfficiency);
  }
  if (base == nullptr) return "";
  Chart throughput, share;
  throughput.title = "throughput";
  throughput.unit = "samples a second";
  throughput.series = {{"measured", "var(--c0)", false, &rate},
                       {"perfect scaling", "var(--muted)", true, &ideal_rate}};
  share.title = "efficiency";
  share.unit = "%";
  share.series = {{"measured", "var(--c0)", false, &efficiency},
                  {"95 %, low", "var(--c5)", true, &low},
                  {"95 %, high", "var(--c5)", true, &high},
                  {"75 %", "var(--muted)", true, &wanted}};
  for (Chart* const chart : {&throughput, &share}) {
    chart->x_title = "ranks";
    chart->may_smooth = chart->may_log = false;
    chart->from_zero = true;
  }
  return "<div class=\"charts\">" + figure(throughput, throughput.series) + figure(share, share.series) +
         "</div>";
}

}  // namespace

std::string to_text(const StudyResult& result) {
  std::string text = text_table(table_of_sizes(result)) + '\n';
  for (const std::string& answer : result.answers) text += answer + '\n';
  return text;
}

std::string to_markdown(const StudyResult& result) {
  std::string text = "# Scaling study\n\n" + facts_of(result) + ".\n\n";
  for (const std::string& answer : result.answers) text += "* " + answer + "\n";
  text += "\n## Sizes\n\n" + markdown_table(table_of_sizes(result)) +
          "\n## Where the time of a step goes\n\n" + kPhasesLegend + "\n\n" +
          markdown_table(table_of_phases(result)) + "\n## Parallel efficiency\n\n" +
          markdown_table(table_of_doublings(result)) + "\n## Method\n\n" + method_of(result) + "\n\n    " +
          command_of(result) + "\n";
  return text;
}

std::string to_csv(const StudyResult& result) {
  std::ostringstream out;
  out.precision(9);
  out << "ranks,nodes,repeat,steps,samples_per_step,step_seconds,step_seconds_p95,samples_per_second,"
         "waiting_seconds,first_step_seconds,pss_bytes,failed\n";
  for (const Measurement& each : result.points) {
    out << each.size.ranks << ',' << each.size.nodes << ',' << each.round << ',' << each.steps << ','
        << each.samples_per_step << ',' << each.step << ',' << each.step_p95 << ','
        << (each.step > 0 ? static_cast<double>(each.samples_per_step) / each.step : 0) << ','
        << waiting_of(each.phases) << ',' << each.first_step_seconds << ',' << each.pss_bytes << ','
        << (each.failed() ? 1 : 0) << '\n';
  }
  return out.str();
}

std::string to_html(const StudyResult& result) {
  std::string text =
      "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>Scaling "
      "study</title><style>";
  text += kReportStyle;
  text += "</style></head><body><main><h1>Scaling study</h1><p class=\"sub\">" +
          escape_html(facts_of(result)) + "</p><ul>";
  for (const std::string& answer : result.answers) text += "<li>" + escape_html(answer) + "</li>";
  text += "</ul>" + charts_of(result) + "<h2>Sizes</h2>" + html_table(table_of_sizes(result)) +
          "<h2>Where the time of a step goes</h2><p class=\"sub\">" + escape_html(kPhasesLegend) + "</p>" +
          html_table(table_of_phases(result)) + "<h2>Parallel efficiency</h2>" +
          html_table(table_of_doublings(result)) + "<h2>Method</h2><p>" + escape_html(method_of(result)) +
          "</p><pre>" + escape_html(command_of(result)) + "</pre></main></body></html>\n";
  return text;
}

std::string to_text(const Forecast& predictions) {
  std::vector<Row> rows{{"ranks", "step, ms (95 %)", "samples/s", "efficiency (95 %)"}};
  std::string refusals;
  for (const SizeForecast& each : predictions.sizes) {
    if (!each.refusal.empty()) {
      refusals += std::to_string(each.ranks) + " ranks: " + each.refusal + '\n';
      continue;
    }
    rows.push_back({std::to_string(each.ranks), step_text(each.step), rate_text(each.samples_per_second),
                    share_text(each.efficiency)});
  }
  if (rows.size() == 1) return refusals;
  const std::string network = predictions.network.empty()
                                  ? ""
                                  : ", on the network " + predictions.network +
                                        (predictions.source.empty() ? "" : " (" + predictions.source + ")");
  return "a step of N ranks" + network + ": " + predictions.model +
         "; from its other sizes the study predicts each larger size with an error of " +
         formatted("%.1f", 100 * predictions.own_error) + " % or less\n" + text_table(rows) + refusals;
}

}  // namespace cxtrain
