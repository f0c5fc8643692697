#pragma once

#include <chrono>
#include <string>

namespace cxtrain {

/// Where this process's main thread is, for a thread that looks after it: its stack, innermost first, a line
/// for each frame with the function, where the file that it is in tells its name, and its place in the file
/// (`addr2line -Cfe FILE PLACE` finds the line of the source). The thread is interrupted for that by SIGURG,
/// which is ignored otherwise. Says so where the thread does not answer within `patience`. One caller at a
/// time.
std::string stack_of_main_thread(std::chrono::milliseconds patience);

}  // namespace cxtrain
