#include "cxtrain/data/text_dataset.h"

#include <ATen/ops/empty.h>

#include "cxtrain/base/error.h"
#include "cxtrain/data/data_file.h"

namespace cxtrain {

TextDataset::TextDataset(std::shared_ptr<const std::string> text, std::size_t begin, std::size_t end,
                         std::int64_t context, std::int64_t stride)
    : text_(std::move(text)), begin_(begin), context_(context), stride_(stride) {
  const auto length = static_cast<std::int64_t>(end) - static_cast<std::int64_t>(begin);
  if (context < 1 || stride < 1 || end > text_->size() || length <= context) {
    throw DataError("samples of " + std::to_string(context) + " bytes and the one that follows, every " +
                        std::to_string(stride) + ", were asked for from " + std::to_string(length) +
                        " bytes of text; use a longer text or a shorter context",
                    MessageCode::no_data);
  }
  size_ = (length - context - 1) / stride + 1;
}

void TextDataset::collate(std::span<const std::int64_t> indices, const SampleContext& context,
                          Batch& batch) const {
  const at::TensorOptions options = at::TensorOptions().dtype(at::kLong).pinned_memory(context.pin_memory);
  const auto count = static_cast<std::int64_t>(indices.size());
  batch.tensors.resize(2);
  for (std::size_t shift = 0; shift < 2; ++shift) {
    batch.tensors[shift] = at::empty({count, context_}, options);
    std::int64_t* to = batch.tensors[shift].mutable_data_ptr<std::int64_t>();
    for (const std::int64_t i : indices) {
      const auto* from = reinterpret_cast<const unsigned char*>(text_->data()) + begin_ + shift + i * stride_;
      for (std::int64_t t = 0; t < context_; ++t) *to++ = from[t];
    }
  }
}

TextSplit read_text(const std::string& path, std::int64_t context, std::int64_t stride) {
  const auto text = std::make_shared<const std::string>(read_file(path));
  const std::size_t cut = text->size() / 10 * 9;
  try {
    return {std::make_shared<TextDataset>(text, 0, cut, context, stride),
            std::make_shared<TextDataset>(text, cut, text->size(), context, context)};
  } catch (const DataError& error) {
    throw DataError("'" + path + "' (" + std::to_string(text->size()) +
                        " bytes, nine tenths for training) is too short: " + error.what(),
                    MessageCode::no_data);
  }
}

}  // namespace cxtrain
