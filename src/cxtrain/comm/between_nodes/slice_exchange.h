#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cxtrain/comm/between_nodes/links.h"

namespace cxtrain {

/// An array of which every node has values, and that is to be combined over the nodes.
class ExchangedArray {
 public:
  virtual ~ExchangedArray() = default;

  virtual std::size_t count() const = 0;          ///< of elements
  virtual std::size_t element_bytes() const = 0;  ///< a power of two, up to `SliceExchange::kGrain`

  /// Returns where elements [first, last) lie, if they lie in one piece that has this node's values and takes
  /// the result; else null, and `read` and `write` copy.
  virtual std::byte* in_place(std::size_t first, std::size_t last) = 0;
  /// Writes elements [first, last) of this node's values to `to`.
  virtual void read(std::size_t first, std::size_t last, std::byte* to) = 0;
  /// Combines `count` elements of each node, in the order of the nodes, into `to`, which may be one of them.
  virtual void combine(std::span<const std::byte* const> values, std::byte* to, std::size_t count) const = 0;
  /// Takes elements [first, last) of the result.
  virtual void write(std::size_t first, std::size_t last, const std::byte* from) = 0;
};

/// Combines an array over the nodes.
///
/// The array goes in chunks. Each node owns a share of a chunk: the other nodes send it their values of the
/// share, and it sends them the result. Several chunks are under way, so that both directions of a link are
/// busy. The values of the nodes are combined in the order of the nodes: the bits of the
/// result do not depend on the size of the chunks, and are equal on all nodes.
///
/// Every node makes exchanges of equal arrays in the same order. The order of the bytes on a link is fixed,
/// so that nothing but values travels: the values of chunks 0 to `kLead` - 1, then in turns the result of a
/// chunk and the values of the chunk `kLead` later.
class SliceExchange final : public Exchange {
 public:
  /// The bytes of each share of a chunk, except for the last share, are a multiple of this number.
  static constexpr std::size_t kGrain = 128;
  /// The links outlive the exchange. `chunk_bytes`: equal on all nodes; large enough that the cost of a chunk
  /// is in its bytes, small enough that the way of the last chunk, which nothing hides, is short.
  SliceExchange(Links& links, std::size_t chunk_bytes);

  /// Begins with an array, which lives until `done`. The exchange before is done.
  void begin(ExchangedArray& array);
  bool proceed() override;
  bool done() const override { return stored_ == chunks_; }

 private:
  /// Chunks whose values are under way, and chunks in memory.
  static constexpr std::size_t kLead = 3, kWindow = 6;

  struct Peer {
    std::byte* values = nullptr;  ///< of this node's share, from the peer
    std::uint64_t values_sent = 0, values_received = 0, result_sent = 0, result_received = 0;
  };
  struct Chunk {
    std::size_t first = 0, last = 0;  ///< elements of the array
    std::byte* values = nullptr;      ///< in place, or in `memory`
    std::vector<std::byte> memory;    ///< for the chunk, and behind it for the share from each peer
    std::vector<Peer> peers;          ///< by node; the own one is not used
  };
  /// Bytes of a chunk that a node owns.
  struct Share {
    std::size_t begin, end;
    std::size_t size() const { return end - begin; }
  };

  Chunk& chunk(std::size_t index) { return window_[index % kWindow]; }
  Share share(const Chunk& chunk, int node) const;
  bool may_send_values() const { return started_ < chunks_ && started_ < folded_ + kLead; }
  void send_values();
  void fold();

  Links& links_;
  const std::size_t chunk_bytes_;
  ExchangedArray* array_ = nullptr;
  std::size_t element_ = 1;
  std::size_t chunks_ = 0;
  std::size_t started_ = 0, folded_ = 0, stored_ = 0;  ///< chunks
  std::array<Chunk, kWindow> window_;
  std::vector<const std::byte*> sources_;
};

}  // namespace cxtrain
