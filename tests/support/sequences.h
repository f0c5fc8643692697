#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <memory>
#include <utility>
#include <vector>

#include "cxtrain/data/dataset.h"

namespace cxtrain::test {

/// Sequences of different lengths, without padding.
struct Sequences : BatchObject {
  at::Tensor values;   ///< float [all lengths together, 6]
  at::Tensor lengths;  ///< int64 [B]

  Sequences(at::Tensor its_values, at::Tensor its_lengths)
      : values(std::move(its_values)), lengths(std::move(its_lengths)) {}

  std::int64_t size() const override { return lengths.size(0); }
  std::shared_ptr<BatchObject> clone() const override { return std::make_shared<Sequences>(*this); }
  void for_each_tensor(const TensorChange& change) override { change(values), change(lengths); }
  std::shared_ptr<BatchObject> collate(const Samples& samples) const override {
    std::vector<at::Tensor> all_values, all_lengths;
    for (const auto& sample : samples) {
      all_values.push_back(static_cast<const Sequences&>(*sample).values);
      all_lengths.push_back(static_cast<const Sequences&>(*sample).lengths);
    }
    return std::make_shared<Sequences>(at::cat(all_values), at::cat(all_lengths));
  }

  /// The sum of each sequence [B, 6].
  at::Tensor sums() const {
    const at::Tensor owner = at::repeat_interleave(at::arange(size(), lengths.options()), lengths);
    return at::zeros({size(), 6}, values.options()).index_add(0, owner, values);
  }
};

/// Sequences that `dp` may divide.
struct DivisibleSequences final : Sequences {
  using Sequences::Sequences;
  std::shared_ptr<BatchObject> clone() const override { return std::make_shared<DivisibleSequences>(*this); }
  std::shared_ptr<BatchObject> collate(const Samples& samples) const override {
    const auto joined = Sequences::collate(samples);
    const auto& sequences = static_cast<const Sequences&>(*joined);
    return std::make_shared<DivisibleSequences>(sequences.values, sequences.lengths);
  }
  std::shared_ptr<BatchObject> narrow(std::int64_t begin, std::int64_t count) const override {
    const std::int64_t first = lengths.narrow(0, 0, begin).sum().item<std::int64_t>();
    const at::Tensor own = lengths.narrow(0, begin, count);
    return std::make_shared<DivisibleSequences>(values.narrow(0, first, own.sum().item<std::int64_t>()), own);
  }
};

/// Sample i is a sequence of 1 + i % 4 rows that hold i, and the target [2].
template <class Kind = Sequences>
class SequenceData : public Dataset {
 public:
  explicit SequenceData(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Batch get(std::int64_t index, SampleRandom&) const override {
    const std::int64_t length = 1 + index % 4;
    const auto number = static_cast<double>(index);
    return {.tensors = {at::full({2}, number / 10)},
            .objects = {{std::make_shared<Kind>(at::full({length, 6}, number / 20), at::tensor({length}))}}};
  }

 private:
  std::int64_t size_;
};

}  // namespace cxtrain::test
