#pragma once

#include <string>
#include <vector>

#include "cxtrain/state/state_dict.h"

namespace cxtrain {

/// Something without whose memory a training would go on differently. Saved and loaded between two steps.
class Stateful {
 public:
  virtual ~Stateful() = default;

  /// The name of its section, one for each object of a training.
  virtual std::string state_key() const = 0;
  /// Every rank calls it. May wait for the device; talks to no other rank.
  virtual void save(StateDict& state) const = 0;
  /// Takes over what an object like it has saved, on a rank of the same number. Every rank calls it; talks to
  /// no other rank. Throws StateError where the state is not one of its kind.
  virtual void load(const StateDict& state) = 0;
  /// Whether the ranks remember different things (random generators), or all the same, but for the parts of
  /// tensors that each of them holds.
  virtual bool differs_between_ranks() const { return false; }
};

/// Names of sections for objects that may be of one kind, which are told apart by their order: "A", "A#2".
std::vector<std::string> distinct_keys(std::vector<std::string> keys);

}  // namespace cxtrain
