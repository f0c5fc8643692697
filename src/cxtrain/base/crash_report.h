#pragma once

#include <chrono>
#include <string>

/// Where a process was that crashes, and where a process is that hangs.
namespace cxtrain {

/// From now on a crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, and so what `std::terminate` does) of any
/// thread writes the thread's stack into the file of `report_crashes_to`, to stderr where there is none, and
/// one line to stderr that names rank, host, step and file. The process then dies of the same signal, with a
/// core where those are written. For the beginning of a program, by its main thread.
///
/// A signal that somebody handles already (a sanitizer) is left to them. Open MPI leaves signals that are
/// handled alone, so where this comes first, its own stack traces on stderr are not written. Children that
/// are forked crash as if this had not been called. A stack that has overflown is told of in the main thread
/// only: other threads have no second one to tell it on.
void report_crashes(int rank);

/// `file`: an existing one; appended to. Empty: none. Where it cannot be opened there is none.
void report_crashes_to(const std::string& file);

/// Where this process's main thread is, for a thread that looks after it: its stack, innermost first, a line
/// for each frame with the function, where the file that it is in tells its name, and its place in the file
/// (`addr2line -Cfe FILE PLACE` finds the line of the source). The thread is interrupted for that by SIGURG,
/// which is ignored otherwise. Says so where the thread does not answer within `patience`. One caller at a
/// time.
std::string stack_of_main_thread(std::chrono::milliseconds patience);

}  // namespace cxtrain
