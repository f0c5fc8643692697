#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstddef>
#include <vector>

namespace cxtrain {

/// Numbers on their way from devices to the host, so that a device goes on with what it has been told while
/// somebody wants to know what it has found out.
class AsyncScalars {
 public:
  AsyncScalars() = default;
  /// Tensors of one element each; undefined ones count as 0. Starts the copies behind what the calling thread
  /// has told the devices so far, one for each device and dtype, and does not wait.
  explicit AsyncScalars(const std::vector<at::Tensor>& numbers);

  /// Whether they are all there; does not wait.
  bool arrived() const;
  /// The numbers, in the order of the tensors. Waits for what the devices were told before the copies, and
  /// for nothing that they were told since.
  std::vector<double> wait() const;

 private:
  struct Copy {
    std::vector<std::size_t> places;  ///< in the result
    at::Tensor numbers;               ///< float64, page-locked where it comes from a device
  };

  std::size_t count_ = 0;
  std::vector<Copy> copies_;
  std::vector<c10::Event> ends_;  ///< of the copies from each device
};

}  // namespace cxtrain
