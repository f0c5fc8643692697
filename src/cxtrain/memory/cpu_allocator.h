#pragma once

namespace cxtrain {

/// Lets the process keep what it frees, instead of giving it back to the kernel and faulting it in again at
/// each step: LibTorch's CPU tensors of a megabyte or more by size (BlockCache), smaller blocks and
/// everything else by malloc
/// (`tune_malloc`). Does nothing where the user has a wish of their own about malloc. For programs to call,
/// once, at their start: both are settings of the process. Returns whether it did.
bool keep_freed_memory();

}  // namespace cxtrain
