#include "cxtrain/doctor/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cxtrain/base/text.h"
#include "cxtrain/doctor/checks.h"

namespace cxtrain::doctor {
namespace {

/// Of findings that are none of a check: `add_refusal`.
constexpr Check kRefusal{.id = "options",
                         .title = "A training with these options is refused",
                         .why = "It would end before its first step.",
                         .run = nullptr};

const Check& check_of(const std::vector<Check>& checks, const Finding& finding) {
  const auto found = std::ranges::find(checks, finding.check, &Check::id);
  return found == checks.end() ? kRefusal : *found;
}

std::string problem_text(const Finding& finding, const Check& check) {
  std::string text =
      std::string(word_of(finding.severity)) + ": " + std::string(check.title) + " (" + finding.check + ")\n";
  text += "  found: " + finding.found + "\n";
  text += "  why:   " + std::string(check.why) + "\n";
  if (!finding.fix.empty()) text += "  fix:   " + finding.fix + "\n";
  return text + "\n";
}

std::string summary_line(const Diagnosis& diagnosis) {
  const auto number = [&](Severity severity) { return diagnosis.count(severity); };
  std::string text =
      counted(diagnosis.findings.size(), "check") + ": " + std::to_string(number(Severity::ok)) + " fine";
  if (const int notes = number(Severity::note)) text += ", " + counted(notes, "note");
  if (const int warnings = number(Severity::warning)) text += ", " + counted(warnings, "warning");
  if (const int errors = number(Severity::error)) text += ", " + counted(errors, "error");
  if (const int unknown = number(Severity::unknown)) text += ", " + std::to_string(unknown) + " not known";
  return text + "\n";
}

}  // namespace

int Diagnosis::count(Severity severity) const {
  return static_cast<int>(std::ranges::count(findings, severity, &Finding::severity));
}

Diagnosis diagnose(const Recording& recording) {
  Diagnosis diagnosis;
  for (const Check& check : all_checks()) {
    Findings findings;
    if (check.applies == nullptr || check.applies(recording)) findings = check.run(recording);
    if (findings.empty()) findings.push_back({});
    for (Finding& finding : findings) {
      finding.check = check.id;
      diagnosis.findings.push_back(std::move(finding));
    }
  }
  if (diagnosis.count(Severity::warning) > 0) diagnosis.exit_code = 1;
  if (diagnosis.count(Severity::error) > 0) diagnosis.exit_code = 2;
  return diagnosis;
}

void add_refusal(const Problem& problem, Diagnosis& diagnosis) {
  diagnosis.findings.push_back(
      {Severity::error, std::string(kRefusal.id) + "." + problem.option, problem.message, problem.hint});
  diagnosis.exit_code = 2;
}

std::string to_text(const Diagnosis& diagnosis, bool all) {
  const std::vector<Check> checks = all_checks();
  std::string text;
  for (const Severity severity : {Severity::error, Severity::warning, Severity::note}) {
    for (const Finding& finding : diagnosis.findings) {
      if (finding.severity == severity) text += problem_text(finding, check_of(checks, finding));
    }
  }
  if (all) {
    for (const Finding& finding : diagnosis.findings) {
      if (finding.severity == Severity::ok) text += "fine       " + finding.check + "\n";
      if (finding.severity == Severity::unknown)
        text += "not known  " + finding.check + ": " + finding.found + "\n";
    }
    text += "\n";
  }
  return text + summary_line(diagnosis);
}

std::string to_json(const Diagnosis& diagnosis, const Recording& recording) {
  using Json = nlohmann::ordered_json;
  const std::vector<Check> checks = all_checks();
  Json list = Json::array();
  for (const Finding& finding : diagnosis.findings) {
    const Check& check = check_of(checks, finding);
    list.push_back({{"id", finding.check},
                    {"severity", word_of(finding.severity)},
                    {"title", check.title},
                    {"found", finding.found},
                    {"why", check.why},
                    {"fix", finding.fix}});
  }
  const Json json{{"exit_code", diagnosis.exit_code},
                  {"checks", std::move(list)},
                  {"world", Json::parse(to_json(recording))}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<Check> all_checks() {
  std::vector<Check> all;
  for (auto* subject :
       {launch_checks, core_checks, thread_checks, gpu_checks, gpu_health_checks, nccl_checks, mpi_checks,
        host_checks, memory_checks, limit_checks, folder_checks, sameness_checks}) {
    for (const Check& check : subject()) all.push_back(check);
  }
  return all;
}

}  // namespace cxtrain::doctor
