#pragma once

#include <string>
#include <vector>

namespace cxtrain {

/// What each rank runs.
struct Program {
  std::string path;  ///< absolute
  std::vector<std::string> arguments;
};

/// This process's own program, with these arguments (without the name).
Program this_program(int argc, const char* const* argv);

/// What MPI's launchers have to be told about `ranks` processes on this node, as environment variables,
/// replacing those that are there: that the user knows that he is root (he started this program as root), and
/// that there may be more ranks than cores.
void prepare_environment(int ranks);

}  // namespace cxtrain
