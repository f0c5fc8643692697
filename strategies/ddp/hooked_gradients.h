#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/reduce/comm_hook.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "ordered_exchange.h"

namespace cxtrain {

/// Gradients that a hook averages over all ranks, after backward.
class HookedGradients final : public OrderedExchange {
 public:
  /// `buffers`: brought to the ranks after each step; or null. All references outlive it. Collective.
  HookedGradients(std::vector<NamedTensor> parameters, std::shared_ptr<AveragingHook> hook,
                  Communicator& communicator, World& world, TensorSync* buffers, bool find_unused_parameters);

  void zero_gradients() override;
  void begin_backward(bool /*completes_step*/) override { is_complete_ = false; }
  void complete() override;
  std::string order() const override { return {}; }
  void set_order(const std::string& /*lines*/) override {}
  Stateful* memory() override { return hook_.get(); }

 private:
  std::vector<NamedTensor> parameters_;
  std::shared_ptr<AveragingHook> hook_;
  World& world_;
  const bool find_unused_parameters_;
  bool is_complete_ = false;  ///< the gradients of this step
  bool warned_unused_ = false;
};

}  // namespace cxtrain
