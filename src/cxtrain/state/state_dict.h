#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cxtrain/tensor/piece.h"

namespace cxtrain {

/// What an object remembers of a training: numbers, texts and tensors by name, in sections that may have
/// sections of their own. PyTorch's state_dict, with types.
///
///     state.set("wait", wait_);                              // to save
///     wait_ = state.integer("wait");                         // to load
///
/// Tensors are shared with the object that they came from, and change with it, until `clone()`. What is asked
/// for and is not there, or is of another type, is a StateError that names it with its sections.
class StateDict {
 public:
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  template <class Number>
  requires std::integral<Number> || std::floating_point<Number>
  void set(std::string_view name, Number value) {
    if constexpr (std::same_as<Number, bool>) {
      put(name, value);
    } else if constexpr (std::integral<Number>) {
      put(name, static_cast<std::int64_t>(value));
    } else {
      put(name, static_cast<double>(value));
    }
  }
  void set(std::string_view name, std::string text) { put(name, std::move(text)); }
  /// A whole tensor.
  void set(std::string_view name, const at::Tensor& tensor) { add(whole_piece(std::string(name), tensor)); }
  /// Under their own names: parts of tensors whose other parts are elsewhere, or wholes.
  void add(Piece piece) { pieces_.push_back(std::move(piece)); }
  void add(std::span<const Piece> pieces) { pieces_.insert(pieces_.end(), pieces.begin(), pieces.end()); }

  bool boolean(std::string_view name) const { return get<bool>(name); }
  std::int64_t integer(std::string_view name) const { return get<std::int64_t>(name); }
  double real(std::string_view name) const { return get<double>(name); }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }
  /// A tensor that is there as a whole.
  const at::Tensor& tensor(std::string_view name) const;
  /// Whether there is a number, text or tensor of this name.
  bool has(std::string_view name) const;

  /// The section of this name to write to, which is made where there is none.
  StateDict& make_section(std::string_view name);
  const StateDict& section(std::string_view name) const;
  bool has_section(std::string_view name) const { return sections_.contains(name); }

  const std::map<std::string, Value, std::less<>>& values() const { return values_; }
  std::span<const Piece> pieces() const { return pieces_; }
  const std::map<std::string, StateDict, std::less<>>& sections() const { return sections_; }

  /// The same with tensors of its own, on their devices.
  StateDict clone() const;

 private:
  void put(std::string_view name, Value value) {
    values_.insert_or_assign(std::string(name), std::move(value));
  }
  template <class Type>
  const Type& get(std::string_view name) const;
  [[noreturn]] void refuse(std::string_view name, const char* why) const;

  std::string path_;  ///< "callbacks.EarlyStopping.", for messages
  std::map<std::string, Value, std::less<>> values_;
  std::vector<Piece> pieces_;
  std::map<std::string, StateDict, std::less<>> sections_;
};

/// Where two differ, as "optimizer.exp_avg.net.weight: ..."; empty where they are equal to the last bit.
std::string first_difference(const StateDict& a, const StateDict& b);

}  // namespace cxtrain
