#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace cxtrain {

/// While it lives, tensors that this thread makes have a shape, a dtype and no memory: they are on LibTorch's
/// device `meta`, whatever device the code asks for. Models of any size are built in milliseconds. Code that
/// reads a value of such a tensor throws c10::Error.
class ShapesOnly {
 public:
  ShapesOnly();

  /// Returns whether one lives in this thread.
  static bool active();

 private:
  c10::impl::IncludeDispatchKeyGuard mode_;
};

}  // namespace cxtrain
