#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/node/node_memory.h"

namespace cxtrain {

/// Receives a call for each gradient that autograd has completed.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  /// `parameter`: index in the list that `hook_gradients` got. Called on autograd's threads: on CUDA on one
  /// for each device, while the caller waits in backward.
  virtual void on_gradient(std::size_t parameter) = 0;
};

/// Puts a hook into the post-accumulate slot of each parameter, which autograd runs once the gradient of a
/// backward is complete. A parameter has one slot: a hook replaces the last hook. The listener outlives the
/// hooks.
void hook_gradients(std::span<const at::Tensor> parameters, GradientListener& listener);
void unhook_gradients(std::span<const at::Tensor> parameters);

/// Returns whether ranks can reduce a gradient in place: it has a slot of the pool for itself (autograd may
/// hand out views of one tensor), and the dtype and strides of `expected`. `pool` may be null.
bool reducible_in_pool(const MemPool* pool, const at::Tensor& gradient, const at::Tensor& expected);

/// Returns the error of a gradient that came again after its bucket or row was reduced.
/// `part`: "bucket" or "row".
TrainingError second_gradient(const std::string& parameter, const std::string& part);

/// Warns of parameters (a comma between two) whose gradients count as zero, because backward did not reach
/// them.
void warn_of_missing_gradients(const std::string& names);

/// Returns for each parameter whether it got a gradient on any rank. `touched`: whether it got one on this
/// rank. Collective.
std::vector<bool> touched_on_any_rank(const std::vector<bool>& touched, World& world);

/// The streams of a device on which the gradients of one message were made.
class GradientStreams {
 public:
  /// Notes the device's current stream, on which a gradient was made.
  void note(c10::Device device);
  bool empty() const { return streams_.empty(); }
  bool several() const { return streams_.size() > 1; }
  void clear() { streams_.clear(); }
  /// Returns the first noted stream, on which the message goes out.
  c10::Stream first() const { return streams_.front(); }
  /// Makes the first stream wait for the work of the other streams.
  void join_first() const;

 private:
  std::vector<c10::Stream> streams_;
};

}  // namespace cxtrain
