#pragma once

#include <functional>
#include <string>

/// What is found out about a plugin's file before this process opens it.
namespace cxtrain {

/// Why a file cannot be a shared library of this machine, as far as its headers tell: "is a FIFO", "is cut
/// short: ...". Empty: nothing against it. The dynamic loader itself believes the headers, and a file that is
/// shorter than they say ends the process.
std::string why_no_shared_library(const std::string& path);

/// Does `work` in a child process first, whose output is dropped, to see whether it can be done: code that is
/// not ours may end the process that calls it. Empty when the child came back; else what happened to it: the
/// message of an exception, a signal by its name, `_exit`, no end within a minute. Costs a fork. `work` must
/// not rely on other threads.
std::string try_in_child(const std::function<void()>& work);

}  // namespace cxtrain
