#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cxtrain/base/message_code.h"

/// What is found out about a plugin's file before this process opens it.
namespace cxtrain {

/// Why a file cannot be a shared library of this machine, as far as its headers tell: "is a FIFO", "is cut
/// short: ...". Empty: nothing against it. The dynamic loader itself believes the headers, and a file that is
/// shorter than they say ends the process.
std::string why_no_shared_library(const std::string& path);

/// What happened to a child process.
struct ChildFailure {
  enum class Thrown : char { nothing, plugin_error, other };

  std::string what;  ///< the message of an exception; else "crashed with signal 11", "ended the process ..."
  Thrown thrown = Thrown::nothing;
  MessageCode code = MessageCode::none;  ///< of a PluginError
};

/// Does `work` in a child process first, whose output is dropped, to see whether it can be done: code of
/// others may end the process that calls it. Absent if the child came back; else what happened to it: an
/// exception, a signal,
/// `_exit`, no end within a minute. Costs a fork. `work` must not rely on other threads.
std::optional<ChildFailure> try_in_child(const std::function<void()>& work);

}  // namespace cxtrain
