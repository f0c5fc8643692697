#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"

namespace cxtrain {

/// A record of a zip archive, as the archive's directory describes it.
struct ZipRecord {
  std::string name;
  bool is_packed = false;
  std::uint64_t bytes = 0;  ///< unpacked
};

/// The directory at the end of a zip archive (PKWARE's APPNOTE 6.3.10, sections 4.3.12 to 4.3.16). Unpacks
/// nothing, so that an archive can be refused before a library unpacks what would fill the memory. Throws
/// CheckpointError with the reason alone.
std::vector<ZipRecord> read_zip_directory(const ReadableFile& file);

}  // namespace cxtrain
