#include "seq2seq/seq2seq_data.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/data/data_file.h"

void ReversedLines::collate(std::span<const std::int64_t> indices, const cxtrain::SampleContext&,
                            cxtrain::Batch& batch) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  const auto length = static_cast<std::int64_t>(lines_.empty() ? 0 : lines_[0].size());
  batch.tensors = {at::empty({count, length}, at::kLong), at::empty({count, length}, at::kLong)};
  std::int64_t* forwards = batch.tensors[0].mutable_data_ptr<std::int64_t>();
  std::int64_t* backwards = batch.tensors[1].mutable_data_ptr<std::int64_t>();
  const auto byte = [](char c) { return static_cast<std::int64_t>(static_cast<unsigned char>(c)); };
  for (const std::int64_t i : indices) {
    const std::string& line = lines_[static_cast<std::size_t>(i)];
    forwards = std::transform(line.begin(), line.end(), forwards, byte);
    backwards = std::transform(line.rbegin(), line.rend(), backwards, byte);
  }
}

void ReversedLinesData::setup(cxtrain::Stage, const cxtrain::DataOptions& options) {
  const std::string path = options.path.empty() ? cxtrain::find_data_file("bible-kjv.txt") : options.path;
  std::istringstream text(cxtrain::read_file(path));
  const auto length = static_cast<std::size_t>(length_);
  std::vector<std::string> train, val;
  std::size_t number = 0;
  for (std::string line; std::getline(text, line);) {
    if (line.size() < length) continue;
    (number++ % 10 == 9 ? val : train).push_back(line.substr(line.size() - length));
  }
  if (val.empty()) {
    throw cxtrain::DataError(
        "'" + path + "' has " + std::to_string(number) + " lines of at least " + std::to_string(length) +
            " bytes, and 10 are needed for one to validate on; use a longer text or a smaller "
            "--model.length",
        cxtrain::MessageCode::no_data);
  }
  train_ = std::make_shared<ReversedLines>(std::move(train));
  val_ = std::make_shared<ReversedLines>(std::move(val));
}
