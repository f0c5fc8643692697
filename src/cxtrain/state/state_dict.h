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

/// The state of an object of a training: numbers, texts and tensors by name, in sections that may contain
/// sections. PyTorch's state_dict, with types.
///
///     state.set("wait", wait_);                              // to save
///     wait_ = state.integer("wait");                         // to load
///
/// Tensors share memory with the object that they came from, and change with it, until `clone()`. Tensors of
/// a checkpoint's state stay in its files until somebody reads them. A read throws StateError, with the name
/// and its sections, if the value is missing or has another type.
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
  /// Adds a whole tensor. Ranks may have different values under one name. Throws StateError for an undefined
  /// tensor.
  void set(std::string_view name, const at::Tensor& tensor);
  /// Adds pieces under their own names: parts of tensors, with the other parts elsewhere, or whole tensors.
  /// Equal pieces have equal values on all ranks.
  void add(Piece piece) { pieces_.push_back(std::move(piece)); }
  void add(std::span<const Piece> pieces) { pieces_.insert(pieces_.end(), pieces.begin(), pieces.end()); }

  bool boolean(std::string_view name) const { return get<bool>(name); }
  std::int64_t integer(std::string_view name) const { return get<std::int64_t>(name); }
  double real(std::string_view name) const { return get<double>(name); }
  const std::string& text(std::string_view name) const { return get<std::string>(name); }
  /// Returns a tensor that is stored as a whole.
  at::Tensor tensor(std::string_view name) const;
  /// Returns whether there is a number, text or tensor of this name.
  bool has(std::string_view name) const;

  /// Returns the section of this name for writing, and makes it if there is none.
  StateDict& make_section(std::string_view name);
  const StateDict& section(std::string_view name) const;
  bool has_section(std::string_view name) const { return sections_.contains(name); }

  const std::map<std::string, Value, std::less<>>& values() const { return values_; }
  std::span<const Piece> pieces() const { return pieces_; }
  const std::map<std::string, StateDict, std::less<>>& sections() const { return sections_; }

  /// Returns a copy with tensors of its own, on their devices. Reads stored tensors.
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

}  // namespace cxtrain
