#pragma once

#include "cxtrain/callbacks/callback.h"

namespace cxtrain {

/// Stops training after a time (`max_time`): Lightning's Timer. The first rank whose time is up decides for
/// all.
class Timer final : public Callback {
 public:
  explicit Timer(double max_seconds) : max_seconds_(max_seconds) {}
  void on_train_batch_end(RunView& run, const at::Tensor& loss, const Batch& batch,
                          std::int64_t batch_idx) override;

 private:
  double max_seconds_;
};

}  // namespace cxtrain
