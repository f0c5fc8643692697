#include "switched_gradients.h"

#include <utility>

namespace cxtrain {
namespace {

constexpr const char *kSteps = "steps", *kSecond = "second";

}  // namespace

void SwitchedGradients::zero_gradients() {
  if (steps_ >= first_steps_ && make_second_) begin_second();
  current_->zero_gradients();
}

void SwitchedGradients::begin_second() {
  current_.reset();  // a parameter has room for the hook of one exchange
  current_ = std::exchange(make_second_, nullptr)();
  if (!of_second_) return;
  if (!order_of_second_.empty()) current_->set_order(order_of_second_);
  if (Stateful* const memory = current_->memory()) memory->load(*of_second_);
  of_second_.reset();
}

void SwitchedGradients::set_order(const std::string& lines) {
  order_of_second_ = lines;
  current_->set_order(lines);
}

void SwitchedGradients::save(StateDict& state) const {
  state.set(kSteps, steps_);
  if (of_second_) state.make_section(kSecond) = *of_second_;
  if (make_second_) return;
  StateDict& second = state.make_section(kSecond);
  if (const Stateful* const memory = current_->memory()) memory->save(second);
}

void SwitchedGradients::load(const StateDict& state) {
  steps_ = state.integer(kSteps);
  of_second_.reset();
  if (state.has_section(kSecond)) of_second_ = state.section(kSecond).clone();
}

}  // namespace cxtrain
