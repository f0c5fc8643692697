#pragma once

namespace cxtrain {

/// Columns of the terminal behind a file descriptor (80 where it does not tell); 0 when it is not a terminal,
/// or a dumb one.
int terminal_columns(int file_descriptor);

}  // namespace cxtrain
