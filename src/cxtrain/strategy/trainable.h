#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "cxtrain/data/batch.h"
#include "cxtrain/metrics/metric.h"
#include "cxtrain/metrics/metric_sink.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/strategy/step_output.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain {

class Blocks;
class Chain;

/// A model as strategies and loops see it. `cxtrain::Module` implements it for users' classes; this header
/// needs no module headers of LibTorch.
class Trainable {
 public:
  virtual ~Trainable() = default;

  /// Parameters and buffers in registration order, each once, under its first name if modules share it. The
  /// tensors are handles: writing to them writes to the model.
  virtual std::vector<NamedTensor> all_parameters() const = 0;
  virtual std::vector<NamedTensor> all_buffers() const = 0;

  /// Moves parameters and buffers to the rank's devices (at least one), and floating-point tensors to the
  /// dtypes of the precision. Everything goes to the first device, except for a model in several parts.
  virtual void place(std::span<const at::Device> devices, const PrecisionPolicy& precision) = 0;
  /// Turns training mode on or off, for the module and everything below it.
  virtual void set_training(bool on) = 0;
  /// Returns the modes of the module and of everything below it, in registration order. `set_training_modes`
  /// of another model of this class accepts them, too.
  virtual std::vector<bool> training_modes() const = 0;
  virtual void set_training_modes(const std::vector<bool>& modes) = 0;

  /// Sets the destination of the model's logged values from now on (null: nowhere); returns the previous
  /// destination.
  virtual MetricSink* redirect_log(MetricSink* sink) = 0;

  /// Returns the metrics of the model, in the order of registration.
  virtual std::vector<Metric*> all_metrics() const { return {}; }

  /// Returns the blocks of the model; null if it has none.
  virtual Blocks* blocks() { return nullptr; }
  /// Returns the model as a chain of its blocks; null if it is none.
  virtual Chain* chain() { return nullptr; }

  /// Returns the loss of one micro-batch: a scalar tensor with a gradient; undefined to skip the batch.
  virtual StepOutput training_step(const Batch& batch, std::int64_t batch_idx) = 0;
  /// Runs the other stages. `validation_step` and `test_step` log their results; `predict_step` returns its
  /// result.
  virtual void validation_step(const Batch& batch, std::int64_t batch_idx) = 0;
  virtual void test_step(const Batch& batch, std::int64_t batch_idx) = 0;
  virtual at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) = 0;
};

}  // namespace cxtrain
