#include "cxtrain/config/precision.h"

#include <array>

#include "cxtrain/config/values.h"

namespace cxtrain {

Parsed<Precision> parse_precision(std::string_view text) {
  struct Spelling {
    std::string_view typed, name;
  };
  static constexpr std::array kShorthands{Spelling{"16", "16-mixed"}, Spelling{"bf16", "bf16-mixed"},
                                          Spelling{"32", "32-true"}, Spelling{"64", "64-true"}};
  static constexpr std::array<std::string_view, 6> kNames{"32-true", "16-mixed", "bf16-mixed",
                                                          "64-true", "16-true",  "bf16-true"};
  const std::string_view typed = trim(text);
  for (const Spelling& spelling : kShorthands) {
    if (spelling.typed == typed) return Parsed<Precision>::of({std::string(spelling.name), true});
  }
  std::string known;
  for (const std::string_view name : kNames) {
    if (name == typed) return Parsed<Precision>::of({std::string(name), false});
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  return Parsed<Precision>::refused("'" + std::string(text) +
                                    "' is no precision; known are 16, bf16, 32, 64 and " + known);
}

}  // namespace cxtrain
