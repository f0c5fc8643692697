#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>
#include <string>
#include <variant>

#include "cxtrain/state/state_dict.h"
#include "cxtrain/tensor/piece.h"

namespace cxtrain::test {

inline std::string text_of_value(const StateDict::Value& value) {
  std::ostringstream text;
  text.precision(17);
  std::visit([&](const auto& v) { text << std::boolalpha << v; }, value);
  return text.str();
}

/// NaN is equal to NaN here: the bits count.
inline bool equal_to_the_bit(const StateDict::Value& a, const StateDict::Value& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  return x != nullptr && y != nullptr ? std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(*y)
                                      : a == b;
}

inline bool equal_to_the_bit(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.cpu().contiguous(), y = b.cpu().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

inline std::string difference_of_tensors(const StateDict& a, const StateDict& b) {
  const auto name_of = [](const StateDict& dict, std::size_t i) {
    return i < dict.pieces().size() ? dict.pieces()[i].name : std::string("nothing");
  };
  for (std::size_t i = 0; i < std::max(a.pieces().size(), b.pieces().size()); ++i) {
    const std::string name = name_of(a, i), other = name_of(b, i);
    if (name != other) return name + ": the other has " + other + " in its place";
    const Piece &x = a.pieces()[i], &y = b.pieces()[i];
    if (x.shape != y.shape || x.range != y.range) return name + ": another shape or part";
    if (!equal_to_the_bit(x.read(), y.read())) return name + ": other values";
  }
  return {};
}

/// Returns the first difference, as "optimizer.exp_avg.net.weight: ..."; empty if both are equal to the last
/// bit.
inline std::string first_difference(const StateDict& a, const StateDict& b) {
  for (const auto& [name, value] : a.values()) {
    const auto other = b.values().find(name);
    if (other == b.values().end()) return name + ": the other has none";
    if (!equal_to_the_bit(value, other->second))
      return name + ": " + text_of_value(value) + " and " + text_of_value(other->second);
  }
  for (const auto& [name, value] : b.values()) {
    if (!a.values().contains(name)) return name + ": only the other has it";
  }
  if (std::string found = difference_of_tensors(a, b); !found.empty()) return found;
  for (const auto& [name, section] : a.sections()) {
    if (!b.has_section(name)) return name + ": the other has no such section";
    if (const std::string found = first_difference(section, b.section(name)); !found.empty())
      return name + "." + found;
  }
  for (const auto& [name, section] : b.sections()) {
    if (!a.has_section(name)) return name + ": only the other has this section";
  }
  return {};
}

}  // namespace cxtrain::test
