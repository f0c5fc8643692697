#pragma once

#include <ATen/record_function.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "cxtrain/base/readable_bytes.h"

namespace cxtrain {

/// While a trace is recorded, an operation "bucket 2, 1.05 MB" in the trace, as long as the object lives: a
/// rank sends gradients, which are complete.
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
