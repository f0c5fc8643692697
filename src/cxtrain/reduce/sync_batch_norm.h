#pragma once

#include <torch/library.h>

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// Batch norm over the samples of all ranks, for models that know nothing of it.
///
/// LibTorch has no SyncBatchNorm in C++, and torch::nn::BatchNorm cannot be exchanged for one: users hold it
/// by its own type, and its forward is not virtual. All ways to a batch norm (the modules, the functional
/// form, TorchScript) meet in the operator aten::batch_norm, though. While an object of this class lives,
/// that operator has a kernel of ours in front of LibTorch's; it takes over in training mode on a thread that
/// is within a `Scope`, and calls LibTorch's everywhere else. Instance norm, which LibTorch computes by means
/// of the same operator, stays what it is.
///
/// Forward: one message of each rank's mean, spread and number of values for each channel, joined in rank
/// order, so that all ranks get the same bits and nothing cancels; ranks may have different numbers of
/// samples. Running statistics move as with one big batch, the variance unbiased. Backward: one message of
/// two sums for each channel; gradients of the input are those of one big batch, gradients of weight and bias
/// this rank's own part, which the gradient reducer averages as it does all others. Not differentiable twice.
/// `batch_norm_on_host` and `batch_norm_on_device` say how.
///
/// Every rank runs the same batch norms in the same order, each with at least one sample; torch's modules
/// refuse an input that has a single value per channel on its own rank. The messages go through the
/// communicator of the gradients, on whichever thread autograd runs.
class SyncBatchNorm {
 public:
  /// The communicator outlives it, and outlives the backward passes of what ran in its scopes. One object at
  /// a time in a process.
  explicit SyncBatchNorm(Communicator& communicator);
  SyncBatchNorm(const SyncBatchNorm&) = delete;
  SyncBatchNorm& operator=(const SyncBatchNorm&) = delete;

  /// Synchronises the batch norms that this thread's forward passes reach while it lives.
  class Scope {
   public:
    explicit Scope(SyncBatchNorm& sync);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Communicator* outer_;
  };

 private:
  Communicator& communicator_;
  torch::Library kernels_;  ///< takes them back when it ends
};

}  // namespace cxtrain
