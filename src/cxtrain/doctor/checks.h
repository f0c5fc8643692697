#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/field_types.h"
#include "cxtrain/doctor/facts.h"

/// What can be wrong with a world: a table of checks, each a pure function of a recording.
namespace cxtrain::doctor {

/// `unknown`: the recording lacks what the check needs; neither good nor bad.
enum class Severity { ok, unknown, note, warning, error };

}  // namespace cxtrain::doctor
namespace cxtrain {

template <>
struct ChoiceOf<doctor::Severity> {
  static constexpr std::array<std::string_view, 5> words{"ok", "unknown", "note", "warning", "error"};
};

}  // namespace cxtrain
namespace cxtrain::doctor {

struct Finding {
  Severity severity = Severity::ok;
  std::string check;  ///< the id; filled by `diagnose`
  std::string found;  ///< names ranks ("ranks 0-3"), hosts and values; of `unknown`: what is not known
  std::string fix;    ///< what to do; empty where there is nothing to
};
using Findings = std::vector<Finding>;

struct Check {
  std::string_view id;                          ///< "cores.shared"
  std::string_view title;                       ///< what is wrong where the check finds something
  std::string_view why;                         ///< one sentence: why it matters
  Findings (*run)(const Recording&);            ///< empty: nothing found
  bool (*applies)(const Recording&) = nullptr;  ///< whether the check is about this world; null: about all
};

/// All of them, in the order of the report.
std::vector<Check> all_checks();

// The subjects.
std::vector<Check> core_checks();
std::vector<Check> thread_checks();
std::vector<Check> gpu_checks();
std::vector<Check> gpu_health_checks();
std::vector<Check> nccl_checks();
std::vector<Check> mpi_checks();
std::vector<Check> launch_checks();
std::vector<Check> host_checks();
std::vector<Check> memory_checks();
std::vector<Check> limit_checks();
std::vector<Check> folder_checks();
std::vector<Check> sameness_checks();

}  // namespace cxtrain::doctor
