#pragma once

#include <string>
#include <vector>

#include "cxtrain/base/error.h"

/// Keeps messages readable, whatever was typed: a file of wrong keys makes ten thousands of problems, and a
/// value may be as long as a command line.
namespace cxtrain {

/// So many problems are told at once.
inline constexpr std::size_t kMostProblems = 20;

/// The text, or its beginning and its end where it has more than `most` bytes.
std::string shortened(const std::string& text, std::size_t most = 4000);

/// The first problems, with their texts shortened, so that all of them together stay below 4,000 bytes; the
/// last one says how many more there were.
std::vector<Problem> first_of(const std::vector<Problem>& problems);

/// "option: message (hint)".
std::string to_line(const Problem& problem);

}  // namespace cxtrain
