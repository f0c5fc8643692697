#pragma once

namespace cxtrain {

/// An exchange over the links of a node: a state machine without a thread and without a wait.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// Does all that can be done now. Returns whether that was anything.
  virtual bool proceed() = 0;
  virtual bool done() const = 0;
};

}  // namespace cxtrain
