#pragma once

#include <string>

namespace cxtrain {

/// Returns the letter of a process's state: "R", "S", "D", "T", "Z", ... (proc(5)); a blank: there is no such
/// process. Waits for nothing.
char state_letter(int process);

/// Whether the kernel has stopped a process of this machine (SIGSTOP, a debugger). Waits for nothing.
bool is_stopped(int process);

/// What the kernel knows of a process that does not answer, in words: its state, where in the kernel its
/// first thread stands, and in which system call, as far as this user may read that (ptrace(2)'s rules).
/// Waits for nothing.
std::string state_of_process(int process);

}  // namespace cxtrain
