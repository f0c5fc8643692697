#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/report/progress_report.h"

/// How a run is, by its folder: from any machine that sees it, whoever trains there.
namespace cxtrain {

struct RunStatus {
  enum class State {
    starting,  ///< its ranks are there, and have not trained yet
    running,
    silent,  ///< its ranks are there, and have given no sign for longer than they should
    ended,   ///< and said how
    died,    ///< without a word
  };
  struct Checkpoint {
    std::string path;
    std::int64_t epoch = 0, step = 0;

    void fields(auto&& field) { CXTRAIN_EACH(field, path, epoch, step); }
  };

  std::string run;  ///< its folder
  State state = State::starting;
  std::string holder;               ///< "process 12 on n1 (Slurm job 7)"; empty: not known
  std::optional<bool> locked = {};  ///< whether a process holds the folder; absent: there are no locks there
  std::optional<ProgressReport> progress = {};
  double silent_seconds = 0;  ///< since the last sign, by this machine's clock; 0 without progress
  std::optional<Checkpoint> checkpoint = {};  ///< the newest that is complete
  int damaged_checkpoints = 0;
  std::string checkpoint_folder;  ///< where it was looked for
  std::string end;                ///< "done", "stopped", "failed"; empty: run.json is not there
  int exit_code = 0;
  std::string straggler;            ///< the newest warning of one; empty: none
  std::vector<std::string> errors;  ///< the last errors of the ranks, a few
};

template <>
struct ChoiceOf<RunStatus::State> {
  static constexpr std::array<std::string_view, 5> words{"starting", "running", "silent", "ended", "died"};
};

/// The folder of the run that `path` means: itself, or the newest run below it. Throws ConfigError, whose
/// message begins with `command`, if there is none.
std::string find_run(Filesystem& files, const std::string& path, const std::string& command = "status");

/// `now`: seconds since 1970. Changes nothing; a running job's lock is tried. What cannot be read is as if it
/// were not there.
RunStatus read_run_status(Filesystem& files, const std::string& run, double now);

/// The state in words: "done with status 0: to its end".
std::string state_text(const RunStatus& status);

/// For a terminal, and as one line of JSON.
std::string to_text(const RunStatus& status);
std::string to_json(const RunStatus& status);

}  // namespace cxtrain
