#pragma once

#include <span>
#include <string_view>

namespace cxtrain {

/// An argument of Lightning's Trainer that does not exist here.
struct RetiredArgument {
  std::string_view name;
  std::string_view harmless;  ///< the value that asks for nothing, and so is accepted; empty: only null
  std::string_view instead;   ///< what to type, or where to do it
};

/// All of them, of Lightning 0.x to 2.x.
std::span<const RetiredArgument> retired_arguments();

/// The one that `key` names, with or without `trainer.`, or that it is a part of
/// (`trainer.profiler.class_path`); null for none.
const RetiredArgument* find_retired_argument(std::string_view key);

}  // namespace cxtrain
