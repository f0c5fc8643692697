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

/// Returns the stack of this process's main thread, the innermost frame first, with a line for each frame:
/// the function, if the symbols of the frame's file have a name, the file, and the place in the file
/// (`addr2line -Cfe FILE PLACE` prints the line of the source). SIGURG interrupts the main thread for the
/// stack; otherwise a process ignores SIGURG. If the main thread does not answer within `patience`, the text
/// reports that. Another thread calls the function, one caller at a time.
std::string stack_of_main_thread(std::chrono::milliseconds patience);

}  // namespace cxtrain
