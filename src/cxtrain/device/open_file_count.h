#pragma once

namespace cxtrain {

/// Files that a process holds, each counted once: what a start with many ranks asks of a file system.
struct OpenFileCount {
  int libraries = 0;  ///< mapped: the program, its libraries and plugins
  int others = 0;     ///< open, or mapped as data
};

/// This process's, from /proc; devices, pipes and sockets are no files.
OpenFileCount open_file_count();

}  // namespace cxtrain
