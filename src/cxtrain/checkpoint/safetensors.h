#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/tensor/piece.h"

/// Files in the safetensors format (github.com/huggingface/safetensors): the length of a header (8 bytes,
/// little-endian), the header (JSON: name, dtype, shape and place of each tensor), and the tensors' elements,
/// row-major and little-endian, one tensor after the other without a gap.
///
/// To write one: `lay_out`, `safetensors_header`, then the bytes of each entry in the order of the entries.
namespace cxtrain {

/// A tensor of a file, and where its elements are.
struct SafetensorsEntry {
  std::string name;
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;  ///< bytes [begin, end) of the data, which begins after the header
};

/// Puts tensors with larger elements first, and leaves the order otherwise as it is. In a file of this order
/// each element lies at a multiple of its size, which readers that map the file want (PyTorch refuses
/// others).
void sort_for_alignment(std::vector<NamedTensor>& tensors);

/// Places for the tensors, in the order given, without a gap. Throws CheckpointError naming a tensor whose
/// dtype the format lacks.
std::vector<SafetensorsEntry> lay_out(std::span<const NamedTensor> tensors);

/// What a file begins with: the length, and the header, which is filled up with spaces so that the data
/// begins at a multiple of 64 bytes. `begin` and `end` are written as they are. `metadata` are texts that
/// readers hand to whoever asks. Throws CheckpointError for a name that occurs twice, is "__metadata__" or no
/// UTF-8.
std::string safetensors_header(std::span<const SafetensorsEntry> entries,
                               const std::map<std::string, std::string>& metadata);

/// Of a tensor of bools whose bytes were read from somewhere: one that is neither 0 nor 1 has no defined
/// meaning in C++, and counts as true. Other dtypes are left as they are.
at::Tensor with_true_booleans(const at::Tensor& tensor);

/// A file that is open for reading. Several threads may read from one.
class SafetensorsFile {
 public:
  /// Opens a file and checks its header against the format and the file's size. `files` is not used later.
  /// Throws CheckpointError with the path and the reason. What this and `read` allocate is bounded by the
  /// file's size.
  SafetensorsFile(Filesystem& files, const std::string& path);

  const std::string& path() const { return path_; }
  /// In the order of their bytes.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// The tensor of this name; null where there is none.
  const SafetensorsEntry* find(std::string_view name) const;

  /// A new CPU tensor. `entry` is one of this file's. Throws CheckpointError when the file cannot be read.
  at::Tensor read(const SafetensorsEntry& entry) const;
  /// The bytes of a tensor from its byte `offset` on, as many as `bytes` has. Throws CheckpointError when the
  /// tensor has not so many, or the file cannot be read.
  void read(const SafetensorsEntry& entry, std::uint64_t offset, std::span<char> bytes) const;

 private:
  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  std::uint64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
};

}  // namespace cxtrain
