#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "cxtrain/data/batch.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/strategy/metric_sink.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// A model as strategies and loops see it. `cxtrain::Module` implements it for users' classes; nothing here
/// needs LibTorch's module headers.
class Trainable {
 public:
  virtual ~Trainable() = default;

  /// Parameters and buffers in registration order, each once, under its first name where modules share it.
  /// The tensors are handles: writing to them writes to the model.
  virtual std::vector<NamedTensor> all_parameters() const = 0;
  virtual std::vector<NamedTensor> all_buffers() const = 0;

  /// Moves parameters and buffers to the rank's devices (at least one; all to the first, but for a model in
  /// several parts), and floating-point ones to the dtypes that the precision gives them.
  virtual void place(std::span<const at::Device> devices, const PrecisionPolicy& precision) = 0;
  /// Training mode on or off, for the module and everything below it.
  virtual void set_training(bool on) = 0;
  /// The mode of the module and of everything below it, in registration order; another model of the same
  /// class takes it over, too.
  virtual std::vector<bool> training_modes() const = 0;
  virtual void set_training_modes(const std::vector<bool>& modes) = 0;

  /// Where what the model logs goes from now on (null: nowhere); returns where it went until now.
  virtual MetricSink* redirect_log(MetricSink* sink) = 0;

  /// The loss of one micro-batch: a scalar tensor with a gradient; undefined to skip the batch.
  virtual at::Tensor training_step(const Batch& batch, std::int64_t batch_idx) = 0;
  /// The others log what they find; `predict_step` returns it.
  virtual void validation_step(const Batch& batch, std::int64_t batch_idx) = 0;
  virtual void test_step(const Batch& batch, std::int64_t batch_idx) = 0;
  virtual at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) = 0;
};

}  // namespace cxtrain
