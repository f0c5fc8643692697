#include "cxtrain/comm/between_nodes/part_exchange.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "support/catch.h"
#include "support/fake_network.h"

namespace cxtrain {
namespace {

/// Parts in memory, and what the node gets of them.
class FloatParts final : public PartedArray {
 public:
  FloatParts(std::vector<std::vector<float>> values, bool in_place)
      : values_(std::move(values)), results_(values_), in_place_(in_place) {}

  std::size_t count() const override { return values_[0].size(); }
  c10::ScalarType dtype() const override { return c10::ScalarType::Float; }
  std::byte* in_place(int part, std::size_t first, std::size_t) override {
    return in_place_ ? reinterpret_cast<std::byte*>(results_[at(part)].data() + first) : nullptr;
  }
  void read(int part, std::size_t first, std::size_t last, std::byte* to) override {
    std::memcpy(to, values_[at(part)].data() + first, (last - first) * sizeof(float));
  }
  void write(int part, std::size_t first, std::size_t last, const std::byte* from) override {
    std::memcpy(results_[at(part)].data() + first, from, (last - first) * sizeof(float));
  }
  const std::vector<std::vector<float>>& values() const { return values_; }
  const std::vector<std::vector<float>>& results() const { return results_; }

 private:
  static std::size_t at(int part) { return static_cast<std::size_t>(part); }
  std::vector<std::vector<float>> values_, results_;
  bool in_place_;
};

std::vector<FloatParts> random_parts(int nodes, std::size_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<FloatParts> arrays;
  for (int node = 0; node < nodes; ++node) {
    std::vector<std::vector<float>> values(static_cast<std::size_t>(nodes), std::vector<float>(count));
    for (std::vector<float>& part : values)
      std::generate(part.begin(), part.end(), [&] { return normal(random); });
    arrays.emplace_back(std::move(values), /*in_place=*/node % 2 == 1);
  }
  return arrays;
}

/// The values of a part on all nodes, combined.
std::vector<float> combined_part(const std::vector<FloatParts>& arrays, std::size_t part, ReduceOp op,
                                 int divisor) {
  std::vector<const std::byte*> sources;
  for (const FloatParts& array : arrays)
    sources.push_back(reinterpret_cast<const std::byte*>(array.values()[part].data()));
  std::vector<float> result(arrays[0].count());
  auto* const target = reinterpret_cast<std::byte*>(result.data());
  reduce_elements(c10::ScalarType::Float, op, sources, {&target, 1}, result.size(), divisor);
  return result;
}

TEST_CASE("parts of any size are combined on their nodes, or come to all nodes, however the bytes move") {
  const int count_of_nodes = GENERATE(2, 3, 4, 9);
  const std::size_t chunk = GENERATE(std::size_t{64}, std::size_t{1000}, std::size_t{4096});
  const unsigned seed = GENERATE(1U, 2U);
  CAPTURE(count_of_nodes, chunk, seed);
  std::mt19937 random(seed);
  test::ExchangingNodes<PartExchange> nodes(count_of_nodes, chunk, seed);
  for (const std::size_t count : {1, 15, 16, 17, 1000, 4097}) {  // one after the other, on the same links
    CAPTURE(count);
    const ReduceOp op = count % 2 == 0 ? ReduceOp::avg : ReduceOp::sum;
    const int divisor = op == ReduceOp::avg ? count_of_nodes : 1;
    std::vector<FloatParts> sums = random_parts(count_of_nodes, count, random);
    for (std::size_t node = 0; node < nodes.size(); ++node) nodes[node].scatter(sums[node], op, divisor);
    REQUIRE(nodes.proceed(random));
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      CHECK(sums[node].results()[node] == combined_part(sums, node, op, divisor));
      // The parts of other nodes stay what they were.
      for (std::size_t part = 0; part < nodes.size(); ++part) {
        if (part != node) CHECK(sums[node].results()[part] == sums[node].values()[part]);
      }
    }

    std::vector<FloatParts> gathered = random_parts(count_of_nodes, count, random);
    for (std::size_t node = 0; node < nodes.size(); ++node) nodes[node].gather(gathered[node]);
    REQUIRE(nodes.proceed(random));
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      for (std::size_t part = 0; part < nodes.size(); ++part)
        CHECK(gathered[node].results()[part] == gathered[part].values()[part]);
    }
  }
}

TEST_CASE("a node sends each element once: half of what a sum for all nodes takes") {
  constexpr std::size_t kCount = 4096;
  std::mt19937 random(1);
  test::ExchangingNodes<PartExchange> nodes(2, 1000, 1);
  std::vector<FloatParts> parts = random_parts(2, kCount, random);
  for (std::size_t node = 0; node < 2; ++node) nodes[node].scatter(parts[node], ReduceOp::sum, 1);
  REQUIRE(nodes.proceed(random));
  CHECK(nodes.links(0).sent(1) == kCount * sizeof(float));
  for (std::size_t node = 0; node < 2; ++node) nodes[node].gather(parts[node]);
  REQUIRE(nodes.proceed(random));
  CHECK(nodes.links(0).sent(1) == 2 * kCount * sizeof(float));
}

}  // namespace
}  // namespace cxtrain
