#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/base/field_types.h"

/// A scaling experiment: one training on several numbers of ranks, several times. Pure.
namespace cxtrain {

/// What stays equal when ranks are added: the batch of each rank, or the batch of all ranks together.
enum class ScalingMode : std::uint8_t { weak, strong };
template <>
struct ChoiceOf<ScalingMode> {
  static constexpr std::array<std::string_view, 2> words{"weak", "strong"};
};

struct StudySize {
  int ranks = 1, nodes = 1;

  /// By ranks, then by nodes.
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the 0 of a comparison for a pointer
  auto operator<=>(const StudySize&) const = default;
  void fields(auto&& field) {
    field("ranks", ranks, in_json::AtLeast{1});
    field("nodes", nodes, in_json::AtLeast{1});
  }
};

/// One training of a study.
struct StudyPoint {
  StudySize size;
  int round = 1;

  /// Its folder below the study's folder: "points/r4-n2-k1".
  std::string folder() const;
};

/// What a study measures: the content of study.json.
struct Study {
  ScalingMode mode = ScalingMode::weak;
  std::vector<StudySize> sizes = {};      ///< different, by increasing ranks
  int rounds = 3;                         ///< trainings of each size
  std::int64_t seed = 0;                  ///< of the order within rounds
  std::int64_t batch_size = 0;            ///< of all ranks together, in the mode `strong`
  int threads = 0;                        ///< of each rank (OMP_NUM_THREADS); 0: as the environment says
  std::string config_sha256 = {};         ///< of the --config files of the training; empty: it has none
  std::vector<std::string> options = {};  ///< of the training

  void fields(auto&& field) {
    field("mode", mode);
    field("sizes", sizes);
    field("repeats", rounds, in_json::AtLeast{1});
    CXTRAIN_EACH(field, seed, batch_size, threads, config_sha256, options);
  }
};

/// Upper limit of `Study::rounds`.
inline constexpr int kMaxRounds = 1000;

/// Returns what is wrong with a study that a file holds; empty: nothing.
std::string fault_of(const Study& study);

/// Returns all trainings of a study. Each round has each size once, in an order of its own, so that a machine
/// that becomes slower or faster does so for all sizes.
std::vector<StudyPoint> schedule_of(const Study& study);

/// Returns the options of one training: the study's, then those that the study sets. `root`: of its run.
std::vector<std::string> options_of_point(const Study& study, const StudySize& size, const std::string& root);

/// The most ranks that one node has in a study; 0 without sizes.
int most_ranks_of_node(const Study& study);

/// "4 ranks on 2 nodes", "1 rank".
std::string name_of(const StudySize& size);

}  // namespace cxtrain
