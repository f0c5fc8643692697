#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/checkpoint/safetensors.h"
#include "support/faulty_filesystem.h"

namespace cxtrain::test {

inline void put_file(Filesystem& files, const std::string& path, const std::string& content) {
  const std::unique_ptr<WritableFile> file = files.create(path);
  file->write(content);
  file->close();
}

/// A safetensors file with these tensors, in this order.
inline std::string safetensors_of(const std::vector<NamedTensor>& tensors,
                                  const std::map<std::string, std::string>& metadata = {}) {
  std::string content = safetensors_header(lay_out(tensors), metadata);
  for (const NamedTensor& named : tensors) {
    const at::Tensor rows = named.tensor.contiguous();
    content.append(static_cast<const char*>(rows.data_ptr()), rows.nbytes());
  }
  return content;
}

/// A safetensors file with this header, as it is, and so many bytes of zeros after it.
inline std::string with_header(const std::string& json, std::size_t data_bytes) {
  std::string content;
  for (std::size_t length = json.size(), i = 0; i < 8; ++i, length >>= 8)
    content += static_cast<char>(length & 0xff);
  return content + json + std::string(data_bytes, '\0');
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || a.sizes() != b.sizes()) return false;
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return std::string_view(static_cast<const char*>(x.data_ptr()), x.nbytes()) ==
         std::string_view(static_cast<const char*>(y.data_ptr()), y.nbytes());
}

}  // namespace cxtrain::test
