#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "cxtrain/data/batch.h"
#include "cxtrain/reduce/named_tensor.h"

namespace cxtrain {

/// A model as strategies and loops see it. `cxtrain::Module` implements it for users' classes; nothing here
/// needs LibTorch's module headers.
class Trainable {
 public:
  virtual ~Trainable() = default;

  /// Parameters and buffers in registration order. The tensors are handles: writing to them writes to the
  /// model.
  virtual std::vector<NamedTensor> all_parameters() const = 0;
  virtual std::vector<NamedTensor> all_buffers() const = 0;

  /// Moves parameters and buffers to the device, and floating-point ones to `dtype` where given.
  virtual void place(at::Device device, std::optional<at::ScalarType> dtype) = 0;
  /// Training mode on or off, for the module and everything below it.
  virtual void set_training(bool on) = 0;

  /// The loss of one micro-batch: a scalar tensor with a gradient.
  virtual at::Tensor training_step(const Batch& batch, std::int64_t batch_idx) = 0;
  /// The others log what they find; `predict_step` returns it.
  virtual void validation_step(const Batch& batch, std::int64_t batch_idx) = 0;
  virtual void test_step(const Batch& batch, std::int64_t batch_idx) = 0;
  virtual at::Tensor predict_step(const Batch& batch, std::int64_t batch_idx) = 0;
};

}  // namespace cxtrain
