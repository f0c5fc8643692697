#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cxtrain/cluster/world.h"
#include "cxtrain/reduce/tensor_sync.h"
#include "ordered_exchange.h"
#include "power_sgd.h"

namespace cxtrain {

/// Gradients that are averaged over all ranks by matrices of low rank (`PowerSgd`), after backward.
class PowerSgdGradients final : public OrderedExchange, private Stateful {
 public:
  struct Settings {
    std::int64_t rank;   ///< of the matrices
    std::uint64_t seed;  ///< of the first matrices; equal on all ranks
    bool find_unused_parameters;
  };
  /// `buffers`: brought to the ranks after each step; or null. All references outlive it. Collective.
  PowerSgdGradients(std::vector<NamedTensor> parameters, Communicator& communicator, World& world,
                    TensorSync* buffers, const Settings& settings);

  void zero_gradients() override;
  void complete() override;
  void bring_buffers() override;
  std::string order() const override { return {}; }
  void set_order(const std::string& /*lines*/) override {}
  Stateful* memory() override { return this; }

 private:
  std::string state_key() const override { return "power_sgd"; }
  void save(StateDict& state) const override { power_sgd_.save(state); }
  void load(const StateDict& state) override { power_sgd_.load(state); }
  bool differs_between_ranks() const override { return true; }

  std::vector<NamedTensor> parameters_;
  World& world_;
  TensorSync* buffers_;
  const bool find_unused_parameters_;
  bool is_complete_ = false;  ///< the gradients of this step
  bool warned_unused_ = false;
  PowerSgd power_sgd_;
};

}  // namespace cxtrain
