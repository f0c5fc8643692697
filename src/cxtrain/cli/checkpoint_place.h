#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/manifest.h"

namespace cxtrain {

/// The manifest of a checkpoint's folder; nothing for a file of weights, or a folder without one. Throws
/// CheckpointError for a damaged one.
std::optional<Manifest> manifest_of(Filesystem& files, const std::string& path);

/// For people: where the training stood, what it was, and the files.
void print_place(const Manifest& manifest, std::ostream& terminal);

/// Compares every file of a checkpoint with its checksum, and says that it is whole. Throws CheckpointError
/// naming the first that is not.
void verify_checkpoint(Filesystem& files, const std::string& path, bool json, std::ostream& out);

}  // namespace cxtrain
