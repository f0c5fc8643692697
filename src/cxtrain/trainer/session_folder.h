#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/log.h"
#include "cxtrain/trainer/predictions.h"

namespace cxtrain {

class World;

/// The folder of a run, as far as one call of a trainer writes it. Rank 0 makes or takes the folder, locks it
/// for this job and writes its files. Each rank writes its log and its predictions.
class SessionFolder {
 public:
  /// What the call does with the folder.
  enum class Use {
    make,    ///< makes the folder
    extend,  ///< adds to the folder of the fit before
    resume,  ///< continues in the folder of a run that has ended
  };
  /// All references outlive the object. `log`: gets a file in the folder; null: no log does.
  SessionFolder(World& world, Filesystem& files, Log* log) : world_(world), files_(files), log_(log) {}

  /// Takes the folder, and writes nothing in it yet. `path`: the folder; with `make` the folder in which runs
  /// have theirs. `timeout_seconds`: how long ranks wait for each other. Throws ConfigError. Collective.
  void open(Use use, const std::string& path, double timeout_seconds);
  /// From then on files are written. Opens the log's file and writes `config.yaml`, except for `extend`. With
  /// `resume`, removes the file that said how the run ended. `config`: empty: no `config.yaml`. Collective.
  void begin_files(const std::string& config);

  /// Empty before `open`: nothing is written.
  const std::string& path() const { return path_; }
  bool begun() const { return begun_; }

  /// Writes a file as a whole, on rank 0, once files have begun. A file that cannot be written is logged and
  /// left out.
  void write(const std::string& name, std::string_view content) const noexcept;
  /// Writes this rank's predictions of each loader.
  void write_predictions(const std::vector<Predictions>& predictions) const noexcept;

 private:
  World& world_;
  Filesystem& files_;
  Log* log_;
  Use use_ = Use::make;
  std::string path_;
  bool begun_ = false;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace cxtrain
