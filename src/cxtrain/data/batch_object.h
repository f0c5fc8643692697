#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace cxtrain {

/// A class of your own in a batch, beside the tensors: a graph, or sequences of different lengths. An object
/// holds the samples of a batch; a dataset's `get` makes an object of one sample. The trainer moves, pins and
/// converts the object's tensors.
///
///     struct Sequences : cxtrain::BatchObject {
///       at::Tensor values, lengths;                   // of all samples, one after the other; of each
///       std::int64_t size() const override { return lengths.size(0); }
///       std::shared_ptr<BatchObject> clone() const override { return std::make_shared<Sequences>(*this); }
///       void for_each_tensor(const TensorChange& change) override { change(values), change(lengths); }
///       std::shared_ptr<BatchObject> collate(const Samples& samples) const override;
///     };
class BatchObject {
 public:
  using TensorChange = std::function<void(at::Tensor&)>;
  using Samples = std::span<const std::shared_ptr<const BatchObject>>;

  virtual ~BatchObject() = default;

  /// Returns the number of samples.
  virtual std::int64_t size() const = 0;
  /// Returns a copy whose tensors share the memory of these.
  virtual std::shared_ptr<BatchObject> clone() const = 0;
  /// Calls `change` for each tensor, always in the same order. `change` may replace the tensor: by a copy on
  /// the device, in page-locked memory, or in the dtype of the model's inputs.
  virtual void for_each_tensor(const TensorChange& change) = 0;
  /// Joins objects of this class, in their order. This object is the first of `samples`. Called by the
  /// loader's threads.
  virtual std::shared_ptr<BatchObject> collate(const Samples& samples) const = 0;
  /// Returns `count` samples from `begin` on, for a replica of `dp`. By default throws ConfigError: the class
  /// cannot be divided.
  virtual std::shared_ptr<BatchObject> narrow(std::int64_t begin, std::int64_t count) const;
};

/// Returns the name of the object's class, for messages.
std::string class_of(const BatchObject& object);

}  // namespace cxtrain
