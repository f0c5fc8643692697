#pragma once

#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/doctor/checks.h"

/// What the checks find in a world, for people and for programs.
namespace cxtrain::doctor {

struct Diagnosis {
  std::vector<Finding> findings;  ///< in the order of the checks; one `ok` for each that found nothing
  /// 0: nothing is wrong; 1: there are warnings; 2: there are errors. Notes and what is not known count as
  /// nothing.
  int exit_code = 0;

  /// How many findings are of this kind.
  int count(Severity severity) const;
};

/// Runs all checks. Pure: the same recording, the same diagnosis.
Diagnosis diagnose(const Recording& recording);

/// Adds what a training would be refused for, which no check of the world finds: an error.
void add_refusal(const Problem& problem, Diagnosis& diagnosis);

/// For a terminal: what is wrong (errors, warnings, notes), each with what was found, why it matters and what
/// to do, then one line of numbers. `all`: a line for each check that found nothing or does not know, too.
std::string to_text(const Diagnosis& diagnosis, bool all = false);

/// One line:
///
///     {"exit_code":1,"checks":[{"id":"cores.few","severity":"warning","title":"...","found":"...","why":"...",
///      "fix":"..."}],"world":{...}}
///
/// `severity` is ok, unknown, note, warning or error; "world" is what `parse_recording` reads.
std::string to_json(const Diagnosis& diagnosis, const Recording& recording);

}  // namespace cxtrain::doctor
