#include "strategies/dp/flat_messages.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>

#include "support/catch.h"

namespace cxtrain {
namespace {

using Lists = std::vector<std::vector<at::Tensor>>;

/// Peers in host memory that write down how much travels: of each message the number of tensors and of bytes.
/// As over a network, only memory counts, not how it is shaped.
class WritingPeers final : public PeerCommunicator {
 public:
  std::string description() const override { return "test"; }
  void broadcast(Tensors tensors) override {
    move(tensors, [](const at::Tensor& first, const at::Tensor& other) { other.copy_(first); });
  }
  void reduce(Tensors tensors) override {
    move(tensors, [](const at::Tensor& first, const at::Tensor& other) { first.add_(other); });
  }
  std::vector<std::pair<std::size_t, std::size_t>> messages;

 private:
  template <class Work>
  void move(Tensors tensors, Work work) {
    std::size_t bytes = 0;
    for (const at::Tensor& tensor : tensors[0]) bytes += tensor.nbytes();
    messages.emplace_back(tensors[0].size(), bytes);
    const auto memory = [](const at::Tensor& t) {
      return t.as_strided({t.numel()}, {1}, t.storage_offset());
    };
    for (std::size_t m = 1; m < tensors.size(); ++m) {
      REQUIRE(tensors[m].size() == tensors[0].size());
      for (std::size_t i = 0; i < tensors[0].size(); ++i) {
        REQUIRE(tensors[m][i].scalar_type() == tensors[0][i].scalar_type());
        work(memory(tensors[0][i]), memory(tensors[m][i]));
      }
    }
  }
};

using Messages = std::vector<std::pair<std::size_t, std::size_t>>;

/// The same shapes for each of `devices`, with other values.
Lists several(int devices, const std::vector<std::pair<std::vector<std::int64_t>, at::ScalarType>>& shapes) {
  Lists lists(static_cast<std::size_t>(devices));
  for (auto& list : lists) {
    for (const auto& [shape, dtype] : shapes) list.push_back(at::rand(shape).mul(100).to(dtype));
  }
  return lists;
}

std::vector<at::Tensor> copies(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> list;
  for (const at::Tensor& tensor : tensors) list.push_back(tensor.clone());
  return list;
}

bool equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = at::equal(a[i], b[i]);
  return same;
}

TEST_CASE("many tensors travel in a message for each dtype, and arrive") {
  WritingPeers peers;
  FlatMessages flat(peers);
  Lists tensors = several(3, {{{7}, at::kFloat},
                              {{}, at::kLong},
                              {{3, 5}, at::kFloat},
                              {{0}, at::kFloat},
                              {{2}, at::kHalf},
                              {{3}, at::kLong},
                              {{5}, at::kBool},
                              {{2}, at::kHalf}});
  for (int round = 0; round < 2; ++round) {
    const std::vector<at::Tensor> first = copies(tensors[0]);
    peers.messages.clear();
    flat.broadcast(tensors);
    // The bools are one tensor, which need not be copied.
    CHECK(peers.messages == Messages{{1, 96}, {1, 48}, {1, 32}, {1, 5}});
    for (const auto& list : tensors) CHECK(equal(list, first));
    for (std::size_t i = 0; i < tensors[0].size(); ++i)
      tensors[0][i].copy_(at::rand(tensors[0][i].sizes()).mul(100));
  }
}

TEST_CASE("sums over many tensors reach the first device's") {
  WritingPeers peers;
  FlatMessages flat(peers);
  const Lists tensors =
      several(3, {{{7}, at::kFloat}, {{3, 5}, at::kFloat}, {{4}, at::kDouble}, {{2}, at::kDouble}});
  std::vector<at::Tensor> sums;
  for (std::size_t i = 0; i < tensors[0].size(); ++i)
    sums.push_back(tensors[0][i] + tensors[1][i] + tensors[2][i]);
  flat.reduce(tensors);
  CHECK(equal(tensors[0], sums));
  CHECK(peers.messages == Messages{{1, 96}, {1, 48}});
}

TEST_CASE("a message has its limit, and what is larger travels from where it is") {
  WritingPeers peers;
  FlatMessages flat(peers, 64);
  Lists tensors = several(2, {{{8}, at::kFloat},
                              {{4}, at::kFloat},
                              {{40}, at::kFloat},
                              {{8}, at::kFloat},
                              {{8}, at::kFloat},
                              {{8}, at::kFloat}});
  const std::vector<at::Tensor> first = copies(tensors[0]);
  flat.broadcast(tensors);
  CHECK(peers.messages == Messages{{1, 48}, {1, 160}, {1, 64}, {1, 32}});
  CHECK(equal(tensors[1], first));
  std::vector<at::Tensor> sums;
  for (const at::Tensor& tensor : first) sums.push_back(tensor * 2);
  flat.reduce(tensors);
  CHECK(equal(tensors[0], sums));
}

TEST_CASE("tensors in any strides arrive in their own, and other ones are laid out anew") {
  WritingPeers peers;
  FlatMessages flat(peers);
  const at::Tensor columns = at::rand({5, 3}), expanded = at::rand({4, 1});
  Lists tensors{{columns.t(), at::rand({6, 4}).slice(0, 0, 6, 2), expanded.expand({4, 3})},
                {at::rand({3, 5}), at::rand({3, 4}), at::rand({4, 3})}};
  std::vector<at::Tensor> first = copies(tensors[0]);
  flat.broadcast(tensors);
  CHECK(peers.messages.size() == 1);
  CHECK(equal(tensors[1], first));
  // A single one, whose memory tells another story on each device.
  tensors = {{at::rand({5, 3}).t()}, {at::rand({3, 5})}};
  first = copies(tensors[0]);
  flat.broadcast(tensors);
  CHECK(equal(tensors[1], first));
  flat.reduce(tensors);
  CHECK(at::equal(tensors[0][0], first[0] * 2));
  flat.broadcast(Lists{{}, {}});
}

}  // namespace
}  // namespace cxtrain
