#pragma once

#include <string>

#include "cxtrain/state/stateful.h"
#include "cxtrain/strategy/gradient_exchange.h"

namespace cxtrain {

/// Gradients that travel in buckets, in an order that the first step has shown.
class OrderedExchange : public GradientExchange {
 public:
  /// The order of the gradients in the buckets, a name a line; empty if no order was observed yet.
  virtual std::string order() const = 0;
  /// Lays the buckets out in such an order from the next step on.
  virtual void set_order(const std::string& lines) = 0;

  /// What an exchange remembers from one step to the next besides the order; null: nothing.
  virtual Stateful* memory() { return nullptr; }
};

}  // namespace cxtrain
