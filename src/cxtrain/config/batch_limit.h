#pragma once

#include <string>
#include <string_view>

#include "cxtrain/config/options.h"
#include "cxtrain/config/parsed.h"

namespace cxtrain {

/// "10": ten batches; "0.5", "1.0": that fraction of them. A point or an exponent makes the difference, as
/// the type does in Lightning. Negative numbers and fractions above 1 are refused.
Parsed<BatchLimit> parse_batch_limit(std::string_view text);

/// The batches that a run takes of a loader with `available` ones: `limit.apply`. Throws ConfigError, naming
/// `option` and the arithmetic, for a fraction that means less than one batch; 0 means none and is no
/// mistake.
std::int64_t limited_batches(const BatchLimit& limit, const std::string& option, std::int64_t available);

/// The inverse: "10", "0.5", "1.0".
std::string format_batch_limit(const BatchLimit& limit);

}  // namespace cxtrain
