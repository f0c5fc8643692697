#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "cxtrain/comm/between_nodes/links.h"
#include "cxtrain/comm/between_nodes/slice_exchange.h"
#include "cxtrain/scaling/measurement.h"
#include "cxtrain/scaling/statistics.h"

/// A training on nodes of one process, in virtual time: ranks that compute are only late, the messages
/// between the nodes are those of `SliceExchange`, and the network is known exactly.
namespace cxtrain::test {

/// The network of the nodes. Each has one port, which carries `bytes_per_second` in each direction.
struct VirtualNetwork {
  double bytes_per_second = 125e6;
  double latency = 20e-6;  ///< seconds of a message, besides its bytes
  double overhead = 5e-6;  ///< seconds of a port that a message takes, besides its bytes
};

struct VirtualTraining {
  VirtualNetwork network = {};
  std::size_t bytes = 0;  ///< of all gradients
  int buckets = 4;        ///< of equal size
  std::size_t chunk_bytes = std::size_t{64} << 10;
  bool moves_values = false;               ///< else messages have sizes only
  double forward = 0.01, backward = 0.02;  ///< seconds of a rank that is never late
  double jitter = 0;                       ///< of the logarithm of the time of a rank's step
  double optimizer = 0;                    ///< seconds
  bool overlap = true;                     ///< buckets travel beside backward
  std::uint64_t seed = 1;
};

class VirtualNodes {
 public:
  VirtualNodes(const VirtualTraining& training, int nodes) : training_(training) {
    for (int node = 0; node < nodes; ++node) nodes_.push_back(std::make_unique<Node>(*this, node, nodes));
    streams_.resize(nodes_.size() * nodes_.size());
  }

  /// How long the exchanges of a step take that nothing else delays, in seconds.
  static double exchanges_alone(VirtualTraining training, int nodes) {
    if (nodes == 1) return 0;
    training.forward = training.backward = training.optimizer = training.jitter = 0;
    return VirtualNodes(training, nodes).train(1).step;
  }

  /// The times of the last `steps` steps of `steps` + 3, in seconds: medians over the steps.
  Measurement train(int steps) {
    constexpr std::size_t kWarmUp = 3;
    steps_ = steps + static_cast<int>(kWarmUp);
    for (auto& node : nodes_) node->start_step();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.bytes != 0 && !event.received) {
        receive(event);
        continue;
      }
      if (event.bytes != 0) {
        stream(event.from, event.to).arrived += event.bytes;
        nodes_[event.to]->ports().take(event.from);
      }
      nodes_[event.to]->proceed();
    }
    std::vector<double> lengths, usual_work, longest_work, backward;
    for (std::size_t i = kWarmUp; i < kWarmUp + static_cast<std::size_t>(steps); ++i) {
      const auto over_nodes = [&](auto time) {
        std::vector<double> times;
        for (const auto& node : nodes_) times.push_back(time(node->steps.at(i)));
        std::sort(times.begin(), times.end());
        return times;
      };
      lengths.push_back(nodes_[0]->steps.at(i).end - nodes_[0]->steps.at(i - 1).end);
      const std::vector<double> work = over_nodes([](const Step& step) { return step.work; });
      usual_work.push_back(median_of(work));
      longest_work.push_back(work.back());
      backward.push_back(median_of(over_nodes([](const Step& step) { return step.backward; })));
    }
    Measurement found;
    found.steps = steps;
    found.step = median_of(lengths);
    found.phases = {{"backward", median_of(backward)}};
    found.usual_work = median_of(usual_work);
    found.longest_work = median_of(longest_work);
    return found;
  }

  /// Whether every node has the sum of all nodes' values, which have moved.
  bool sums_are_right() const {
    const float expected = static_cast<float>(nodes_.size() * (nodes_.size() + 1)) / 2;
    return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
      return std::all_of(node->values.begin(), node->values.end(),
                         [&](float value) { return value == expected; });
    });
  }

 private:
  struct Event {
    double time;
    std::uint64_t number;  ///< events of one time happen in the order in which they were made
    std::size_t from, to;
    std::size_t bytes;  ///< of a message from a node; 0: the node's own clock
    bool received;      ///< else the message comes to the receiver's port
    bool operator<(const Event& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  /// A step of a node.
  struct Step {
    double end = 0, work = 0, backward = 0;
  };
  /// Bytes from a node to another.
  struct Stream {
    std::vector<std::byte> values;  ///< of all messages so far, if values move
    std::uint64_t arrived = 0, taken = 0;
  };

  class Ports final : public Links {
   public:
    Ports(VirtualNodes& all, int node, int nodes)
        : all_(all), node_(node), peers_(static_cast<std::size_t>(nodes)) {}

    int node() const override { return node_; }
    int nodes() const override { return static_cast<int>(peers_.size()); }
    std::uint64_t send(int node, std::span<const std::byte> bytes) override {
      Peer& peer = peers_[static_cast<std::size_t>(node)];
      peer.to_send += bytes.size();
      if (!bytes.empty()) all_.carry(index(), static_cast<std::size_t>(node), bytes);
      return peer.to_send;
    }
    std::uint64_t receive(int node, std::span<std::byte> bytes) override {
      Peer& peer = peers_[static_cast<std::size_t>(node)];
      peer.memory.push_back(bytes);
      peer.to_receive += bytes.size();
      take(static_cast<std::size_t>(node));
      return peer.to_receive;
    }
    /// The network has a copy.
    std::uint64_t sent(int node) const override { return peers_[static_cast<std::size_t>(node)].to_send; }
    std::uint64_t received(int node) const override {
      return peers_[static_cast<std::size_t>(node)].received;
    }
    /// What has come is taken when it comes, or when there is memory for it.
    bool proceed() override { return std::exchange(moved_, false); }
    void wait() override {}
    void interrupt() noexcept override {}

    void take(std::size_t from) {
      Peer& peer = peers_[from];
      Stream& stream = all_.stream(from, index());
      while (!peer.memory.empty()) {
        std::span<std::byte>& next = peer.memory.front();
        const std::size_t n = std::min<std::size_t>(next.size(), stream.arrived - stream.taken);
        if (!stream.values.empty()) std::copy_n(stream.values.data() + stream.taken, n, next.data());
        stream.taken += n;
        peer.received += n;
        moved_ = moved_ || n > 0;
        next = next.subspan(n);
        if (!next.empty()) break;
        peer.memory.pop_front();
      }
    }

    double out_free = 0, in_free = 0;  ///< when the port has carried all that it has been given

   private:
    struct Peer {
      std::deque<std::span<std::byte>> memory;
      std::uint64_t to_send = 0, to_receive = 0, received = 0;
    };
    std::size_t index() const { return static_cast<std::size_t>(node_); }
    VirtualNodes& all_;
    int node_;
    std::vector<Peer> peers_;
    bool moved_ = false;
  };

  /// One rank, with a courier of its own.
  class Node final : private ExchangedArray {
   public:
    Node(VirtualNodes& all, int node, int nodes)
        : values((all.training_.moves_values ? all.training_.bytes : all.training_.chunk_bytes) /
                 sizeof(float)),
          all_(all),
          ports_(all, node, nodes),
          random_(all.training_.seed * 1000003 + static_cast<std::uint64_t>(node)) {
      if (nodes > 1) exchange_.emplace(ports_, all.training_.chunk_bytes);
    }

    void start_step() {
      const VirtualTraining& training = all_.training_;
      std::normal_distribution<double> late(0, 1);
      // The mean of the factor is 1.
      const double factor = std::exp(training.jitter * late(random_) - training.jitter * training.jitter / 2);
      begun_ = all_.now_;
      forward_ = factor * training.forward;
      backward_ = factor * training.backward;
      bucket_ = 0;
      exchanging_ = false;
      if (training.moves_values)
        std::fill(values.begin(), values.end(), static_cast<float>(ports_.node() + 1));
      all_.call(ports_.node(), begun_ + forward_ + backward_);
      for (int bucket = 0; bucket < training.buckets; ++bucket) all_.call(ports_.node(), ready(bucket));
    }

    void proceed() {
      if (steps.size() == static_cast<std::size_t>(all_.steps_)) return;
      while (exchange_ && bucket_ < all_.training_.buckets) {
        if (!exchanging_) {
          if (all_.now_ < ready(bucket_)) return;
          exchange_->begin(*this);
          exchanging_ = true;
        }
        exchange_->proceed();
        if (!exchange_->done()) return;
        exchanging_ = false;
        ++bucket_;
      }
      const double computed = begun_ + forward_ + backward_;
      if (all_.now_ < computed) return;
      if (!end_) {
        end_ = all_.now_ + all_.training_.optimizer;
        all_.call(ports_.node(), *end_);
      }
      if (all_.now_ < *end_) return;
      end_.reset();
      steps.push_back(
          {.end = all_.now_, .work = forward_ + backward_ + all_.training_.optimizer, .backward = backward_});
      if (steps.size() < static_cast<std::size_t>(all_.steps_)) start_step();
    }

    Ports& ports() { return ports_; }
    std::vector<float> values;
    std::vector<Step> steps;

   private:
    double ready(int bucket) const {
      const double part = static_cast<double>(bucket + 1) / all_.training_.buckets;
      return begun_ + forward_ + backward_ * (all_.training_.overlap ? part : 1);
    }
    std::size_t count() const override {
      return all_.training_.bytes / sizeof(float) / static_cast<std::size_t>(all_.training_.buckets);
    }
    std::size_t element_bytes() const override { return sizeof(float); }
    std::byte* in_place(std::size_t first, std::size_t) override {
      const std::size_t begin =
          all_.training_.moves_values ? static_cast<std::size_t>(bucket_) * count() + first : 0;
      return reinterpret_cast<std::byte*>(values.data() + begin);
    }
    void read(std::size_t, std::size_t, std::byte*) override {}
    void write(std::size_t, std::size_t, const std::byte*) override {}
    void combine(std::span<const std::byte* const> sources, std::byte* to, std::size_t n) const override {
      if (!all_.training_.moves_values) return;
      std::vector<float> sum(n);
      for (const std::byte* const source : sources) {
        for (std::size_t i = 0; i < n; ++i) sum[i] += reinterpret_cast<const float*>(source)[i];
      }
      std::memcpy(to, sum.data(), n * sizeof(float));
    }

    VirtualNodes& all_;
    Ports ports_;
    std::mt19937_64 random_;
    std::optional<SliceExchange> exchange_;
    double begun_ = 0, forward_ = 0, backward_ = 0;
    int bucket_ = 0;
    bool exchanging_ = false;
    std::optional<double> end_;  ///< of the step, once nothing but the optimizer is left
  };

  Stream& stream(std::size_t from, std::size_t to) { return streams_[from * nodes_.size() + to]; }
  void call(int node, double time) {
    events_.push({time, numbers_++, 0, static_cast<std::size_t>(node), 0, false});
  }
  /// A message takes the sender's port, then the wire, then the receiver's port.
  void carry(std::size_t from, std::size_t to, std::span<const std::byte> bytes) {
    Ports& sender = nodes_[from]->ports();
    const double leaves = std::max(now_, sender.out_free);
    sender.out_free = leaves + seconds_of(bytes.size());
    if (training_.moves_values) {
      Stream& wire = stream(from, to);
      wire.values.insert(wire.values.end(), bytes.begin(), bytes.end());
    }
    // Its first byte may be received while the last one has yet to leave.
    events_.push({leaves + training_.network.latency, numbers_++, from, to, bytes.size(), false});
  }
  void receive(const Event& message) {
    Ports& receiver = nodes_[message.to]->ports();
    receiver.in_free = std::max(now_, receiver.in_free) + seconds_of(message.bytes);
    events_.push({receiver.in_free, numbers_++, message.from, message.to, message.bytes, true});
  }
  double seconds_of(std::size_t bytes) const {
    return training_.network.overhead + static_cast<double>(bytes) / training_.network.bytes_per_second;
  }

  const VirtualTraining training_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Stream> streams_;
  std::priority_queue<Event> events_;
  std::uint64_t numbers_ = 0;
  double now_ = 0;
  int steps_ = 0;
};

}  // namespace cxtrain::test
