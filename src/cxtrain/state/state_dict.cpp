#include "cxtrain/state/state_dict.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <sstream>

#include "cxtrain/base/error.h"

namespace cxtrain {
namespace {

std::string to_text(const StateDict::Value& value) {
  std::ostringstream text;
  text.precision(17);
  std::visit([&](const auto& v) { text << std::boolalpha << v; }, value);
  return text.str();
}

/// NaN is equal to NaN here: the bits count.
bool same_bits(const StateDict::Value& a, const StateDict::Value& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  return x != nullptr && y != nullptr ? std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(*y)
                                      : a == b;
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.cpu().contiguous(), y = b.cpu().contiguous();
  return x.nbytes() == 0 || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

std::string difference_of_tensors(const StateDict& a, const StateDict& b) {
  const auto name_of = [](const StateDict& dict, std::size_t i) {
    return i < dict.pieces().size() ? dict.pieces()[i].name : std::string("nothing");
  };
  for (std::size_t i = 0; i < std::max(a.pieces().size(), b.pieces().size()); ++i) {
    const std::string name = name_of(a, i), other = name_of(b, i);
    if (name != other) return name + ": the other has " + other + " in its place";
    const Piece &x = a.pieces()[i], &y = b.pieces()[i];
    if (x.shape != y.shape || x.range != y.range) return name + ": another shape or part";
    if (!same_bits(x.read(), y.read())) return name + ": other values";
  }
  return {};
}

}  // namespace

void StateDict::refuse(std::string_view name, const char* why) const {
  throw StateError("the saved state " + std::string(why) + " " + path_ + std::string(name));
}

template <class Type>
const Type& StateDict::get(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) refuse(name, "lacks");
  const auto* value = std::get_if<Type>(&found->second);
  if (value == nullptr) refuse(name, "has a value of another type for");
  return *value;
}
template const bool& StateDict::get(std::string_view) const;
template const std::int64_t& StateDict::get(std::string_view) const;
template const double& StateDict::get(std::string_view) const;
template const std::string& StateDict::get(std::string_view) const;

void StateDict::set(std::string_view name, const at::Tensor& tensor) {
  if (!tensor.defined())
    throw StateError("an undefined tensor cannot be saved: " + path_ + std::string(name));
  add(whole_piece(std::string(name), tensor));
  pieces_.back().may_differ = true;
}

at::Tensor StateDict::tensor(std::string_view name) const {
  const auto found = std::ranges::find(pieces_, name, &Piece::name);
  if (found == pieces_.end()) refuse(name, "lacks");
  if (!found->is_whole()) refuse(name, "has only a part of");
  return found->read();
}

bool StateDict::has(std::string_view name) const {
  return values_.contains(name) ||
         std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) { return piece.name == name; });
}

StateDict& StateDict::make_section(std::string_view name) {
  StateDict& found = sections_[std::string(name)];
  found.path_ = path_ + std::string(name) + ".";
  return found;
}

const StateDict& StateDict::section(std::string_view name) const {
  const auto found = sections_.find(name);
  if (found == sections_.end()) refuse(name, "lacks");
  return found->second;
}

StateDict StateDict::clone() const {
  StateDict copy = *this;
  for (Piece& piece : copy.pieces_) {
    piece.values = piece.stored != nullptr ? piece.read() : piece.values.detach().clone();
    piece.stored.reset();
  }
  for (auto& [name, section] : copy.sections_) section = section.clone();
  return copy;
}

std::string first_difference(const StateDict& a, const StateDict& b) {
  for (const auto& [name, value] : a.values()) {
    const auto other = b.values().find(name);
    if (other == b.values().end()) return name + ": the other has none";
    if (!same_bits(value, other->second))
      return name + ": " + to_text(value) + " and " + to_text(other->second);
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

}  // namespace cxtrain
