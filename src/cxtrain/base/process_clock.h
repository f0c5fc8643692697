#pragma once

namespace cxtrain {

/// Seconds since the operating system started this process: what a user waits, dynamic loading included.
/// Resolution 10 ms.
double seconds_since_process_start();

}  // namespace cxtrain
