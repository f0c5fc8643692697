#pragma once

#include <string>
#include <vector>

#include "cxtrain/state/state_dict.h"

namespace cxtrain {

/// A section of this name has tensors that every rank has as a whole, each with values of its own. A training
/// on another number of ranks gets their mean.
inline constexpr const char* kMeanOfRanks = "mean_of_ranks";

/// An object with state that a training needs to resume without a difference. Saved and loaded between two
/// steps.
class Stateful {
 public:
  virtual ~Stateful() = default;

  /// Returns the name of its section, unique among the objects of a training.
  virtual std::string state_key() const = 0;
  /// Saves the state. Every rank calls it. May wait for the device; must not communicate with other ranks.
  virtual void save(StateDict& state) const = 0;
  /// Loads the state that an object of its kind has saved on the rank of this number. Every rank calls it;
  /// must not communicate with other ranks. Throws StateError if the state is of another kind.
  virtual void load(const StateDict& state) = 0;
  /// Returns whether the ranks have different states (random generators). Otherwise the states are equal,
  /// except for the shards of tensors that each rank holds.
  virtual bool differs_between_ranks() const { return false; }
};

/// Returns names of sections for objects that may be of one kind; their order makes the difference: "A",
/// "A#2".
std::vector<std::string> distinct_keys(std::vector<std::string> keys);

}  // namespace cxtrain
