#pragma once

#include <torch/library.h>

#include "cxtrain/comm/communicator.h"

namespace cxtrain {

/// Batch norm over the samples of all ranks, for models that have no code for it.
///
/// LibTorch has no SyncBatchNorm in C++, and torch::nn::BatchNorm cannot be replaced by one: users hold it by
/// its own type, and its forward is not virtual. But all ways to a batch norm (the modules, the functional
/// form, TorchScript) call the operator aten::batch_norm. While an object of this class lives, that operator
/// has our kernel in front of LibTorch's. Our kernel acts in training mode on a thread within a `Scope`, and
/// calls LibTorch's kernel everywhere else. Instance norm, which LibTorch computes with the operator, does
/// not change.
///
/// Forward: one message with each rank's mean, spread and number of values for each channel. The values are
/// joined in rank order, so that all ranks get the same bits and nothing cancels; ranks may have different
/// numbers of samples. Running statistics move as with one big batch, the variance unbiased.
///
/// Backward: one message of two sums for each channel. Gradients of the input equal the gradients of one big
/// batch. Gradients of weight and bias are this rank's own part; the gradient reducer averages them like all
/// gradients. Not differentiable twice. Details are in `batch_norm_on_host` and `batch_norm_on_device`.
///
/// Every rank runs the same batch norms in the same order, each with at least one sample; torch's modules
/// reject an input with a single value per channel on its own rank. The messages go through the communicator
/// of the gradients, on the thread on which autograd runs.
class SyncBatchNorm {
 public:
  /// The communicator must outlive this object, and the backward passes of everything that ran in its scopes.
  /// One object at a time in a process.
  explicit SyncBatchNorm(Communicator& communicator);
  SyncBatchNorm(const SyncBatchNorm&) = delete;
  SyncBatchNorm& operator=(const SyncBatchNorm&) = delete;

  /// Synchronises the batch norms of this thread's forward passes while it lives.
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
  torch::Library kernels_;  ///< removes the kernels when it ends
};

}  // namespace cxtrain
