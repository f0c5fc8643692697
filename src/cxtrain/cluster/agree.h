#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// An error that every rank has: it is reported once, and the ranks end by themselves with its status.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// Runs `work`, which talks to no other rank, on every rank, and compares the outcome: where it threw an
/// Error on any, all throw one AgreedError with the message (naming the ranks where not all have it).
/// Collective.
void run_agreed(World& world, const std::function<void()>& work);
/// The same for work that returns a text: gives every rank's, in rank order. Collective.
std::vector<std::string> gather_agreed(World& world, const std::function<std::string()>& work);

}  // namespace cxtrain
