#include "cxtrain/state/state_dict.h"

#include <algorithm>

#include "cxtrain/base/error.h"

namespace cxtrain {

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
         std::ranges::any_of(pieces_, [&](const Piece& piece) { return piece.name == name; });
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

}  // namespace cxtrain
