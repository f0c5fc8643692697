#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace cxtrain {

/// What follows when a job ends that may be started again (`--max_restarts`): a decision without a side
/// effect, made from what is known of the ends so far.
class RestartPolicy {
 public:
  /// Without a newer checkpoint a job fails so often, and is then given up: it would fail again.
  static constexpr int kMaxFailuresInOnePlace = 3;

  struct Limits {
    int max_restarts = 0;  ///< in all
    int ranks = 1;         ///< that the job begins with
    int min_ranks = 0;     ///< fewer are never started; 0: no rank is ever left out
  };
  /// How a job has ended.
  struct End {
    int status = 0;          ///< its exit status; 128 + the signal that it died of
    bool asked_for = false;  ///< by a signal to this process, which passed it on
    std::int64_t step = -1;  ///< of the newest checkpoint that the job, or one before it, has left; -1: none
    std::optional<int> rank = {};  ///< the one that ended first, where that is known
    std::int64_t samples = 0;      ///< that all ranks together take at a time; 0: not known
  };
  struct Decision {
    enum class Next {
      end,                  ///< with `status`
      from_newest,          ///< start again, from the newest checkpoint that is whole, or anew
      from_the_one_before,  ///< the newest may be what fails
      without_rank,         ///< from the newest, without the rank `rank`
    };
    Next next = Next::end;
    int status = 0;
    std::optional<int> rank = {};
    std::string why = {};  ///< for people; empty where there is nothing to explain
  };

  explicit RestartPolicy(const Limits& limits) : limits_(limits), ranks_(limits.ranks) {}

  Decision after(const End& end);
  int restarts() const { return restarts_; }
  /// That the job has from now on.
  int ranks() const { return ranks_; }

 private:
  Decision again(Decision::Next next);
  /// So many ranks less that they can take as many samples, each the same number; nothing where that is fewer
  /// than there may be.
  std::optional<int> fewer_ranks(std::int64_t samples) const;

  Limits limits_;
  int ranks_;
  int restarts_ = 0;
  int failures_ = 0;  ///< in a row without a newer checkpoint
  std::int64_t step_ = -1;
  std::optional<int> last_rank_;  ///< that ended first at the failure before, in the same place
};

}  // namespace cxtrain
