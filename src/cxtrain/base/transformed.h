#pragma once

#include <functional>
#include <iterator>
#include <type_traits>
#include <vector>

namespace cxtrain {

/// Returns what `of` makes of each element of a list. `of`: a function, or a member of the elements.
template <class List, class Of>
auto transformed(const List& list, const Of& of) {
  std::vector<std::decay_t<std::invoke_result_t<const Of&, decltype(*std::begin(list))>>> results;
  results.reserve(std::size(list));
  for (const auto& each : list) results.push_back(std::invoke(of, each));
  return results;
}

}  // namespace cxtrain
