#pragma once

namespace cxtrain {

/// Makes LibTorch keep freed CPU tensors of a megabyte or more for the next ones (BlockCache); smaller ones stay with
/// malloc. LibTorch has one CPU allocator per process, so this is for programs to call, once, at their start; tensors
/// made before keep theirs.
void use_caching_cpu_allocator();

}  // namespace cxtrain
