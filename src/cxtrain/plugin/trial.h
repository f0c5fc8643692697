#pragma once

#include <functional>
#include <string>

namespace cxtrain {

/// Does `work` in a child process first, whose output is dropped, to see whether it can be done: code that is
/// not ours may end the process that calls it. Empty when the child came back; else what happened to it: the
/// message of an exception, a signal by its name, `_exit`, no end within a minute. Costs a fork. `work` must
/// not rely on other threads.
std::string try_in_child(const std::function<void()>& work);

}  // namespace cxtrain
