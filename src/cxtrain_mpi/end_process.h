#pragma once

/// Ends the process with this status, and leaves the static objects of its libraries as they are. LibTorch's
/// take back one by one the thousands of operators that they have registered, a third of what a process costs
/// that only starts and ends; and a library or a plugin that crashes there would give a run that has ended
/// well another status. Where a library was preloaded, or variables name a tool that CUDA, NVTX or OpenMP has
/// to load (a profiler, which may write its file only then), or where a sanitizer was built in, the process
/// ends as any other does.
[[noreturn]] void end_process(int status);
