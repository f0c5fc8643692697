#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace cxtrain {

/// Checks an archive in which an optimizer of LibTorch has saved its state, before LibTorch reads the
/// archive: LibTorch compiles the program of an archive, and runs parts of the program while it reads. The
/// program of a saved optimizer has classes without functions. `bytes`: the archive, uint8 [n]; it may come
/// from anybody. `name`: for the message. Throws StateError for an archive with functions or with objects of
/// LibTorch's C++ classes, and for one that would unpack to more than the memory should hold.
void require_no_program(const at::Tensor& bytes, const std::string& name);

}  // namespace cxtrain
