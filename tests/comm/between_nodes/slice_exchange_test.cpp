#include "cxtrain/comm/between_nodes/slice_exchange.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "support/catch.h"
#include "support/fake_network.h"

namespace cxtrain {
namespace {

/// A node's values in memory, and the result.
class FloatArray final : public ExchangedArray {
 public:
  /// `in_place`: the result replaces the values.
  FloatArray(std::vector<float> values, ReduceOp op, int divisor, bool in_place)
      : values_(std::move(values)),
        result_(in_place ? values_ : std::vector<float>(values_.size(), -1)),
        op_(op),
        divisor_(divisor),
        in_place_(in_place) {}

  std::size_t count() const override { return values_.size(); }
  std::size_t element_bytes() const override { return sizeof(float); }
  void combine(std::span<const std::byte* const> values, std::byte* to, std::size_t count) const override {
    reduce_elements(c10::ScalarType::Float, op_, values, {&to, 1}, count, divisor_);
  }
  std::byte* in_place(std::size_t first, std::size_t) override {
    return in_place_ ? reinterpret_cast<std::byte*>(result_.data() + first) : nullptr;
  }
  void read(std::size_t first, std::size_t last, std::byte* to) override {
    std::memcpy(to, values_.data() + first, (last - first) * sizeof(float));
  }
  void write(std::size_t first, std::size_t last, const std::byte* from) override {
    std::memcpy(result_.data() + first, from, (last - first) * sizeof(float));
  }
  const std::vector<float>& values() const { return values_; }
  const std::vector<float>& result() const { return result_; }

 private:
  std::vector<float> values_, result_;
  ReduceOp op_;
  int divisor_;
  bool in_place_;
};

std::vector<FloatArray> random_arrays(int nodes, std::size_t count, ReduceOp op, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<FloatArray> arrays;
  for (int node = 0; node < nodes; ++node) {
    std::vector<float> values(count);
    for (float& value : values) value = normal(random);
    arrays.emplace_back(std::move(values), op, op == ReduceOp::avg ? nodes : 1, /*in_place=*/node % 2 == 1);
  }
  return arrays;
}

std::vector<float> combined(const std::vector<FloatArray>& arrays) {
  std::vector<const std::byte*> sources;
  for (const FloatArray& array : arrays)
    sources.push_back(reinterpret_cast<const std::byte*>(array.values().data()));
  std::vector<float> result(arrays[0].count());
  arrays[0].combine(sources, reinterpret_cast<std::byte*>(result.data()), result.size());
  return result;
}

TEST_CASE("arrays of any size are combined over nodes to the bit, however the bytes move") {
  const int count_of_nodes = GENERATE(2, 3, 4, 5, 9);
  const std::size_t chunk = GENERATE(std::size_t{64}, std::size_t{1000}, std::size_t{4096});
  const unsigned seed = GENERATE(1U, 2U);
  CAPTURE(count_of_nodes, chunk, seed);
  std::mt19937 random(seed);
  test::ExchangingNodes<SliceExchange> nodes(count_of_nodes, chunk, seed);
  for (const std::size_t count : {1, 15, 16, 17, 1000, 4097}) {  // one after the other, on the same links
    const ReduceOp op = count % 2 == 0 ? ReduceOp::avg : ReduceOp::sum;
    std::vector<FloatArray> arrays = random_arrays(count_of_nodes, count, op, random);
    for (std::size_t node = 0; node < nodes.size(); ++node) nodes[node].begin(arrays[node]);
    REQUIRE(nodes.proceed(random));
    const std::vector<float> expected = combined(arrays);
    for (const FloatArray& array : arrays) CHECK(array.result() == expected);
  }
}

}  // namespace
}  // namespace cxtrain
