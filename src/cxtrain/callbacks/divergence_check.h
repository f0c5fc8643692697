#pragma once

#include <cstdint>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/config/field.h"

namespace cxtrain {

/// Ends a run whose ranks no longer hold the same parameters, as after a bit that flipped in the memory of
/// one of them, or a hook that is not the same everywhere: after every so many steps each rank makes
/// checksums of its parameters, and the ranks compare them. The error, which all ranks have, names the ranks
/// that differ from the majority, their hosts, and the first parameter; where there is no majority, all of
/// them. Buffers are not compared: the strategy gives all ranks the same after each step, or is told not to.
class DivergenceCheck final : public Callback {
 public:
  struct Args {
    std::int64_t every_n_train_steps = 1000;

    void fields(auto&& field) {
      field("every_n_train_steps", every_n_train_steps, "compare the parameters of the ranks every N steps",
            Range::at_least(1));
    }
  };
  /// Throws ConfigError for arguments outside of their ranges.
  explicit DivergenceCheck(const Args& args);

  void on_train_batch_end(Run& run, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  std::int64_t every_;
  bool nothing_to_compare_ = false;  ///< warned of once
};

}  // namespace cxtrain
