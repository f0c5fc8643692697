#pragma once

namespace cxtrain {

/// How a reduction combines the ranks' values.
enum class ReduceOp { sum, avg, min, max };
const char* to_string(ReduceOp op);

}  // namespace cxtrain
