#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "cxtrain/comm/between_nodes/courier.h"
#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain::test {

/// The sum of an array over the nodes. `finished`: called once the sum is there.
class SumInPlace final : public Errand, private ExchangedArray {
 public:
  explicit SumInPlace(
      std::vector<float>& values, std::function<void()> finished = [] {})
      : values_(values), finished_(std::move(finished)) {}

  Exchange& begin(CourierExchanges& exchanges) override {
    exchanges.slices.begin(*this);
    return exchanges.slices;
  }
  bool wait_for_values(const std::atomic<bool>&) override { return true; }
  void finished() override { finished_(); }
  std::size_t bytes() const override { return values_.size() * sizeof(float); }

 private:
  std::size_t count() const override { return values_.size(); }
  std::size_t element_bytes() const override { return sizeof(float); }
  void combine(std::span<const std::byte* const> values, std::byte* to, std::size_t count) const override {
    reduce_elements(c10::ScalarType::Float, ReduceOp::sum, values, {&to, 1}, count, /*divisor=*/1);
  }
  std::byte* in_place(std::size_t first, std::size_t) override {
    return reinterpret_cast<std::byte*>(values_.data() + first);
  }
  void read(std::size_t, std::size_t, std::byte*) override {}
  void write(std::size_t, std::size_t, const std::byte*) override {}

  std::vector<float>& values_;
  const std::function<void()> finished_;
};

}  // namespace cxtrain::test
