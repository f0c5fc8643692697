#pragma once

#include <zlib.h>

#include <array>
#include <stdexcept>
#include <string>

namespace cxtrain::test {

/// The content of a compressed file.
inline std::string gunzip(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path);
  std::string content;
  std::array<char, 4096> chunk;
  int read = 0;
  while ((read = gzread(file, chunk.data(), chunk.size())) > 0)
    content.append(chunk.data(), static_cast<std::size_t>(read));
  gzclose(file);
  if (read < 0) throw std::runtime_error(path + " is damaged");
  return content;
}

}  // namespace cxtrain::test
