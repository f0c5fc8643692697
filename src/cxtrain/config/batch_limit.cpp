#include "cxtrain/config/batch_limit.h"

#include <algorithm>
#include <cmath>

#include "cxtrain/base/error.h"
#include "cxtrain/config/parse_scalar.h"

namespace cxtrain {

std::int64_t BatchLimit::apply(std::int64_t available) const {
  if (is_fraction()) {
    return static_cast<std::int64_t>(static_cast<double>(available) * std::get<double>(value));
  }
  return std::min(available, std::get<std::int64_t>(value));
}

std::int64_t limited_batches(const BatchLimit& limit, const std::string& option, std::int64_t available) {
  const std::int64_t batches = limit.apply(available);
  if (batches > 0 || available == 0 || limit.is_zero()) return batches;
  const std::string typed = format_batch_limit(limit);
  throw ConfigError(
      "trainer." + option,
      typed + " of " + std::to_string(available) + (available == 1 ? " batch" : " batches") +
          " is less than one: " + typed + " * " + std::to_string(available) + " = " +
          format_real(static_cast<double>(available) * std::get<double>(limit.value)),
      "use --" + option + " " +
          format_batch_limit({std::min(1.0, std::ceil(1e4 / static_cast<double>(available)) / 1e4)}) +
          " or more, or 1 for one batch; 0 for none");
}

Parsed<BatchLimit> parse_batch_limit(std::string_view text) {
  const std::string typed = "'" + std::string(text) + "'";
  if (const auto count = parse_integer(text)) {
    if (*count >= 0) return Parsed<BatchLimit>::of({*count});
    return Parsed<BatchLimit>::refused(
        typed +
        " is negative; batches are counted from 0 (`10`), or a fraction of them is "
        "given (`0.5`)");
  }
  const auto fraction = parse_real(text);
  if (!fraction) {
    return Parsed<BatchLimit>::refused(
        typed + " is neither a number of batches (`10`) nor a fraction of them (`0.5`)");
  }
  if (!(*fraction >= 0.0 && *fraction <= 1.0)) {
    return Parsed<BatchLimit>::refused(
        typed + " is a fraction outside 0.0 to 1.0; a number of batches has no point (`10`)");
  }
  return Parsed<BatchLimit>::of({*fraction});
}

std::string format_batch_limit(const BatchLimit& limit) {
  if (!limit.is_fraction()) return std::to_string(std::get<std::int64_t>(limit.value));
  const std::string text = format_real(std::get<double>(limit.value));
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace cxtrain
