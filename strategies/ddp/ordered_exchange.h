#pragma once

#include <string>

#include "cxtrain/reduce/tensor_sync.h"
#include "cxtrain/state/stateful.h"
#include "cxtrain/strategy/gradient_exchange.h"

namespace cxtrain {

/// Gradients that travel in buckets, in an order that the first step has shown.
class OrderedExchange : public GradientExchange {
 public:
  /// `buffers`: brought to the ranks after each step; null: none. Outlives the object.
  explicit OrderedExchange(TensorSync* buffers = nullptr) : buffers_(buffers) {}

  void bring_buffers() override {
    if (buffers_ != nullptr) buffers_->broadcast();
  }

  /// The order of the gradients in the buckets, a name a line; empty if no order was observed yet.
  virtual std::string order() const = 0;
  /// Lays the buckets out in such an order from the next step on.
  virtual void set_order(const std::string& lines) = 0;

  /// What an exchange remembers from one step to the next besides the order; null: nothing.
  virtual Stateful* memory() { return nullptr; }

 private:
  TensorSync* const buffers_;
};

}  // namespace cxtrain
