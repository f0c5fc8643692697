#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "cxtrain/comm/between_nodes/links.h"

namespace cxtrain::test {

/// Links between nodes of one process, which move a random number of bytes at a time, or none. Every byte
/// keeps its order on its way.
class FakeNetwork {
 public:
  FakeNetwork(int nodes, unsigned seed) : nodes_(nodes), random_(seed) {}

  std::unique_ptr<Links> links_of(int node) { return std::make_unique<FakeLinks>(*this, node); }

 private:
  class FakeLinks final : public Links {
   public:
    FakeLinks(FakeNetwork& network, int node) : network_(network), node_(node) {}

    int node() const override { return node_; }
    int nodes() const override { return network_.nodes_; }
    std::uint64_t send(int node, std::span<const std::byte> bytes) override {
      outgoing_[node].push_back(bytes);
      return to_send_[node] += bytes.size();
    }
    std::uint64_t receive(int node, std::span<std::byte> bytes) override {
      incoming_[node].push_back(bytes);
      return to_receive_[node] += bytes.size();
    }
    std::uint64_t sent(int node) const override { return counted(sent_, node); }
    std::uint64_t received(int node) const override { return counted(received_, node); }
    bool proceed() override {
      bool moved = false;
      for (int node = 0; node < nodes(); ++node) {
        std::deque<std::byte>& out = network_.wires_[{node_, node}];
        moved =
            move(
                outgoing_[node], sent_[node],
                [&](std::span<const std::byte> bytes) { out.insert(out.end(), bytes.begin(), bytes.end()); },
                SIZE_MAX) ||
            moved;
        std::deque<std::byte>& in = network_.wires_[{node, node_}];
        moved = move(
                    incoming_[node], received_[node],
                    [&](std::span<std::byte> bytes) {
                      std::copy_n(in.begin(), bytes.size(), bytes.begin());
                      in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(bytes.size()));
                    },
                    in.size()) ||
                moved;
      }
      return moved;
    }
    void wait() override {}
    void interrupt() noexcept override {}

   private:
    static std::uint64_t counted(const std::map<int, std::uint64_t>& counts, int node) {
      const auto found = counts.find(node);
      return found == counts.end() ? 0 : found->second;
    }
    /// Moves up to `most` bytes of the first span of the queue.
    template <class Bytes, class Move>
    bool move(std::deque<Bytes>& queue, std::uint64_t& count, const Move& by, std::size_t most) {
      while (!queue.empty() && queue.front().empty()) queue.pop_front();
      if (queue.empty()) return false;
      const std::size_t size = std::min({queue.front().size(), most, network_.some_bytes()});
      if (size == 0) return false;
      by(queue.front().first(size));
      queue.front() = queue.front().subspan(size);
      count += size;
      return true;
    }

    FakeNetwork& network_;
    int node_;
    std::map<int, std::deque<std::span<const std::byte>>> outgoing_;
    std::map<int, std::deque<std::span<std::byte>>> incoming_;
    std::map<int, std::uint64_t> to_send_, sent_, to_receive_, received_;
  };

  std::size_t some_bytes() {
    static constexpr std::size_t kSizes[] = {0, 1, 3, 64, 1000, 100000};
    return kSizes[std::uniform_int_distribution<std::size_t>(0, 5)(random_)];
  }

  int nodes_;
  std::mt19937 random_;
  std::map<std::pair<int, int>, std::deque<std::byte>> wires_;  ///< from, to
};

/// An exchange of this class on each node of a network.
template <class Exchange>
class ExchangingNodes {
 public:
  ExchangingNodes(int nodes, std::size_t chunk_bytes, unsigned seed) : network_(nodes, seed) {
    for (int node = 0; node < nodes; ++node) links_.push_back(network_.links_of(node));
    for (const auto& each : links_) exchanges_.emplace_back(*each, chunk_bytes);
  }

  std::size_t size() const { return exchanges_.size(); }
  Exchange& operator[](std::size_t node) { return exchanges_[node]; }
  const Links& links(std::size_t node) const { return *links_[node]; }

  /// Lets the nodes proceed in random order until all are done. Returns whether they are.
  bool proceed(std::mt19937& random) {
    const auto done = [](const Exchange& each) { return each.done(); };
    std::uniform_int_distribution<std::size_t> any(0, size() - 1);
    for (int turn = 0; turn < 10'000'000; ++turn) {
      if (std::all_of(exchanges_.begin(), exchanges_.end(), done)) return true;
      exchanges_[any(random)].proceed();
    }
    return false;
  }

 private:
  FakeNetwork network_;
  std::vector<std::unique_ptr<Links>> links_;
  std::vector<Exchange> exchanges_;
};

}  // namespace cxtrain::test
