#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ordered_exchange.h"

namespace cxtrain {

/// One exchange for the first steps of a training, and another one from then on.
class SwitchedGradients final : public OrderedExchange, private Stateful {
 public:
  /// `make_second` is called once, by all ranks at the same step, when `first` has ended.
  SwitchedGradients(std::unique_ptr<OrderedExchange> first, std::int64_t first_steps,
                    std::function<std::unique_ptr<OrderedExchange>()> make_second)
      : current_(std::move(first)), first_steps_(first_steps), make_second_(std::move(make_second)) {}

  void zero_gradients() override;
  void begin_backward(bool completes_step) override { current_->begin_backward(completes_step); }
  void end_backward() override { current_->end_backward(); }
  void complete() override { current_->complete(); }
  bool carry(std::uint64_t flags) override { return current_->carry(flags); }
  std::uint64_t carried() const override { return current_->carried(); }
  std::optional<Rehearsal> rehearse(RehearsedMessages messages) override {
    return current_->rehearse(messages);
  }
  std::vector<ConnectionUse> connections() const override { return current_->connections(); }
  void end_step(std::int64_t steps) override { steps_ = steps; }
  void bring_buffers() override { current_->bring_buffers(); }
  std::string order() const override { return current_->order(); }
  void set_order(const std::string& lines) override;
  Stateful* memory() override { return this; }

 private:
  std::string state_key() const override { return "switched"; }
  void save(StateDict& state) const override;
  void load(const StateDict& state) override;
  bool differs_between_ranks() const override { return true; }

  void begin_second();

  std::unique_ptr<OrderedExchange> current_;
  const std::int64_t first_steps_;
  std::function<std::unique_ptr<OrderedExchange>()> make_second_;  ///< empty after its call
  std::int64_t steps_ = 0;                                         ///< of the training
  /// What a saved training had, until the second exchange takes it.
  std::optional<StateDict> of_second_;
  std::string order_of_second_;
};

}  // namespace cxtrain
