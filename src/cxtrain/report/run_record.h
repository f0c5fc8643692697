#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/report/curve.h"
#include "cxtrain/report/run_status.h"
#include "cxtrain/report/svg_chart.h"

namespace cxtrain {

/// What a run's folder says about the run, for a report: bounded, whatever the files hold.
struct RunRecord {
  /// Something that happened at a step.
  struct Mark {
    using Kind = ChartMark::Kind;
    Kind kind = Kind::checkpoint;
    std::int64_t step = 0;
    std::string text;
  };

  RunStatus status;
  std::string ranks;                                       ///< "4 ranks on 2 nodes"; empty: not known
  std::vector<std::pair<std::string, std::string>> facts;  ///< "strategy" and "ddp", in the order of a reader
  std::map<std::string, Curve> metrics;                    ///< by name
  Curve step_seconds;                                      ///< of an optimizer step, by TensorBoard's times
  Curve lr_sweep{1e-9};                                    ///< lr_find.csv: x is log10 of the learning rate
  std::optional<double> lr_suggestion;
  std::vector<Mark> marks;          ///< by step
  std::vector<std::string> events;  ///< of rank 0, as lines: restarts, stragglers, warnings, errors
  std::string config;               ///< config.yaml
  std::vector<std::string> notes;   ///< what is missing or damaged
};

/// Reads the folder of a run. `now`: seconds since 1970. Changes nothing; a running job's lock is tried. What
/// cannot be read is a note.
RunRecord read_run_record(Filesystem& files, const std::string& run, double now);

/// When a row of metrics was logged. TensorBoard's files have it, and no other file of a run.
struct EventTime {
  std::int64_t step = 0;
  double seconds = 0;  ///< since 1970
  bool first = false;  ///< in its file: a resumed training begins a new one
};

/// Calls `take` for each event of a run's TensorBoard files, in the order of their names. What cannot be read
/// is as if it were not there; checksums are not looked at.
void read_event_times(Filesystem& files, const std::string& run,
                      const std::function<void(const EventTime&)>& take);

/// A line of a config.yaml, as far as it says what it sets.
struct ConfigLine {
  std::string text;
  std::string key;    ///< "trainer.max_epochs"; empty: the line sets nothing
  std::string value;  ///< "30"
};

/// The lines of what `to_yaml` wrote: keys that are indented below others. Of other YAML, lines.
std::vector<ConfigLine> config_lines(std::string_view yaml);

/// For each key that some of these configurations set to different values, or not all set: its values, in the
/// order of the configurations; empty where one does not set it.
std::map<std::string, std::vector<std::string>> config_differences(
    const std::vector<std::vector<ConfigLine>>& configs);

}  // namespace cxtrain
