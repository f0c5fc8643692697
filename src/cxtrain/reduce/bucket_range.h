#pragma once

#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "cxtrain/base/readable_bytes.h"

namespace cxtrain {

/// Shows an operation "bucket 2, 1.05 MB" in a trace while the object lives. The rank sends complete
/// gradients meanwhile. Without a trace the object does nothing.
class BucketRange {
 public:
  BucketRange(std::size_t index, std::size_t bytes) : range_(at::RecordScope::FUNCTION) {
    if (!range_.isActive()) return;
    range_.before("bucket " + std::to_string(index) + ", " +
                  readable_bytes(static_cast<std::int64_t>(bytes)));
  }

 private:
  at::RecordFunction range_;
};

}  // namespace cxtrain
