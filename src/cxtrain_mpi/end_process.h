#pragma once

/// Ends the process with this status, and leaves the static objects of its libraries as they are. LibTorch's
/// take back one by one the thousands of operators that they have registered, which is a quarter of what a
/// short run costs; and a library or a plugin that crashes there would give a run that has ended well another
/// status. Where a tool was put into the process from outside (a profiler, which may write its file only
/// then) or a sanitizer was built into it, the process ends as any other does.
[[noreturn]] void end_process(int status);
