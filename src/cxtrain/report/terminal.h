#pragma once

#include <unistd.h>

#include <string_view>

#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {

/// Columns of the terminal behind a file descriptor (80 where it does not tell); 0 when it is not a terminal,
/// or a dumb one.
int terminal_columns(int file_descriptor);

/// Columns of the terminal behind a file descriptor where it shows characters beyond ASCII, by the locale of
/// the environment; 0: draw nothing there.
int drawing_columns(int file_descriptor);

/// Where progress is drawn: stderr, or the terminal of the launcher that reads it.
class TerminalOutput {
 public:
  /// `launched`: the parent process may be an mpirun, which passes on what it reads from this one's stderr.
  /// Where that parent's own stderr is a terminal, that is the one to draw on.
  explicit TerminalOutput(bool launched);

  int columns() const { return terminal_columns(descriptor()); }
  /// Returns `cxtrain::drawing_columns` of the terminal.
  int drawing_columns() const { return cxtrain::drawing_columns(descriptor()); }
  /// What cannot be written is lost.
  void write(std::string_view text) noexcept;

 private:
  int descriptor() const { return terminal_ ? terminal_.get() : STDERR_FILENO; }

  FileDescriptor terminal_;  ///< the parent's; none: stderr
};

}  // namespace cxtrain
