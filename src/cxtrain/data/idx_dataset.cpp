#include "cxtrain/data/idx_dataset.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <limits>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"
#include "cxtrain/data/data_file.h"
#include "cxtrain/data/tensor_dataset.h"

namespace cxtrain {
namespace {

constexpr unsigned char kUnsignedByte = 0x08;

/// The uint8 tensor in an IDX file: two zero bytes, the element type, the number of dimensions, each
/// dimension as 32 bits big-endian, then the elements.
at::Tensor read_idx_bytes(const std::string& path, std::size_t dimensions, const std::string& what) {
  const std::string content = read_file(path);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(content[i]); };
  const std::size_t header = 4 + 4 * dimensions;
  if (content.size() >= 4 &&
      (byte(0) != 0 || byte(1) != 0 || byte(2) != kUnsignedByte || byte(3) != dimensions)) {
    throw DataError("'" + path + "' is not an IDX file of " + what + ": it starts with 0x" +
                    hex_of(content.substr(0, 4)) + " where 0x0000080" + std::to_string(dimensions) +
                    " was expected; check which file it is");
  }
  if (content.size() < header) {
    throw DataError("'" + path + "' is truncated: it has " + std::to_string(content.size()) +
                    " bytes, less than the " + std::to_string(header) + " of its header; fetch it again");
  }
  std::vector<std::int64_t> sizes;
  std::uint64_t expected = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    std::uint32_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8 | byte(4 + 4 * d + i);
    sizes.push_back(size);
    // A header of nonsense must not wrap around to the size that the file has.
    if (__builtin_mul_overflow(expected, size, &expected))
      expected = std::numeric_limits<std::uint32_t>::max();
  }
  if (content.size() - header != expected) {
    throw DataError("'" + path + "' is " + (content.size() - header < expected ? "truncated" : "too long") +
                    ": its header promises " + std::to_string(expected) + " bytes of " + what + ", it has " +
                    std::to_string(content.size() - header) + "; fetch it again");
  }
  at::Tensor tensor = at::empty(sizes, at::kByte);
  std::memcpy(tensor.mutable_data_ptr<std::uint8_t>(), content.data() + header, expected);
  return tensor;
}

}  // namespace

IdxDataset::IdxDataset(at::Tensor images, at::Tensor labels)
    : images_(std::move(images)), labels_(std::move(labels)) {
  if (images_.dim() != 3 || images_.scalar_type() != at::kByte || labels_.dim() != 1 ||
      labels_.scalar_type() != at::kLong || images_.size(0) != labels_.size(0)) {
    throw DataError("labelled images are uint8 [N, rows, columns] and int64 [N]; found " +
                    std::to_string(images_.dim()) + " dimensions with " + std::to_string(images_.numel()) +
                    " values and " + std::to_string(labels_.numel()) + " labels");
  }
}

void IdxDataset::collate(std::span<const std::int64_t> indices, const SampleContext& context,
                         Batch& batch) const {
  batch.tensors.resize(2);
  const at::Tensor bytes = gather_rows(images_, indices, context.pin_memory);
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  batch.tensors[0] = bytes.unsqueeze(1);
  batch.tensors[1] = gather_rows(labels_, indices, context.pin_memory);
}

void IdxDataset::on_after_batch_transfer(Batch& batch) const {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  batch.tensors[0] = batch.tensors[0].to(at::kFloat).mul_(1.0 / 255);
}

std::shared_ptr<const IdxDataset> IdxDataset::slice(std::int64_t begin, std::int64_t end) const {
  return std::make_shared<IdxDataset>(images_.narrow(0, begin, end - begin),
                                      labels_.narrow(0, begin, end - begin));
}

std::shared_ptr<const IdxDataset> read_idx(const std::string& images_path, const std::string& labels_path,
                                           std::int64_t num_classes) {
  const at::Tensor images = read_idx_bytes(images_path, 3, "images");
  const at::Tensor labels = read_idx_bytes(labels_path, 1, "labels");
  if (images.numel() == 0)
    throw DataError("'" + images_path + "' holds no images; fetch it again", MessageCode::no_data);
  if (images.size(0) != labels.size(0)) {
    throw DataError("'" + images_path + "' has " + std::to_string(images.size(0)) + " images, '" +
                    labels_path + "' has " + std::to_string(labels.size(0)) +
                    " labels; the two must belong together");
  }
  const std::uint8_t* label = labels.const_data_ptr<std::uint8_t>();
  for (std::int64_t i = 0; i < labels.numel(); ++i) {
    if (label[i] >= num_classes) {
      throw DataError("'" + labels_path + "' has the label " + std::to_string(label[i]) + " at position " +
                      std::to_string(i) + ", where 0 to " + std::to_string(num_classes - 1) +
                      " were expected; fetch it again or say how many classes there are");
    }
  }
  return std::make_shared<IdxDataset>(images, labels.to(at::kLong));
}

}  // namespace cxtrain
