#pragma once

#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cxtrain/comm/between_nodes/links.h"
#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain {

/// An array with a part for each node, all parts of `count` elements.
class PartedArray {
 public:
  virtual ~PartedArray() = default;

  virtual std::size_t count() const = 0;
  virtual c10::ScalarType dtype() const = 0;

  /// Returns where elements [first, last) of the part of a node lie, if they lie in one piece that has this
  /// node's values, or takes the values of another node; else null, and `read` and `write` copy.
  virtual std::byte* in_place(int part, std::size_t first, std::size_t last) = 0;
  /// Writes elements [first, last) of a part, as this node has them, to `to`.
  virtual void read(int part, std::size_t first, std::size_t last, std::byte* to) = 0;
  /// Takes elements [first, last) of a part.
  virtual void write(int part, std::size_t first, std::size_t last, const std::byte* from) = 0;
};

/// Half of a `SliceExchange`. `scatter` combines the nodes' values of each part, in the order of the nodes,
/// and gives the result to the node of the part. `gather` gives the part of each node to all nodes. A node
/// sends each part once, so that each takes half of the bytes of a `SliceExchange`.
///
/// The array goes in chunks, of which several are under way. All nodes begin their exchanges in one order,
/// with equal arrays.
class PartExchange final : public Exchange {
 public:
  /// The links outlive the exchange. `chunk_bytes`: of the same elements of all parts; equal on all nodes.
  PartExchange(Links& links, std::size_t chunk_bytes);

  /// Begin with an array, which lives until `done`. The exchange before is done.
  void scatter(PartedArray& array, ReduceOp op, int divisor);
  void gather(PartedArray& array);

  bool proceed() override;
  bool done() const override { return stored_ == chunks_; }

 private:
  static constexpr std::size_t kWindow = 4;  ///< chunks in memory

  struct Peer {
    std::byte* outgoing = nullptr;        ///< memory for what goes to the node, and
    std::byte* incoming = nullptr;        ///< for what comes from the node
    const std::byte* received = nullptr;  ///< where what has come from the node lies
    std::uint64_t sent = 0, arrived = 0;
  };
  struct Chunk {
    std::size_t first = 0, last = 0;  ///< elements of each part
    std::vector<std::byte> memory;
    std::vector<Peer> peers;  ///< by node; the own one is for this node's values of its part
  };

  void begin(PartedArray& array);
  Chunk& chunk(std::size_t index) { return window_[index % kWindow]; }
  void start(Chunk& next);
  void store(Chunk& ready);
  /// Returns where this node's values of a part lie, in place or in `memory`.
  std::byte* values_of(int part, const Chunk& chunk, std::byte* memory);

  Links& links_;
  const std::size_t part_bytes_;  ///< of a chunk
  PartedArray* array_ = nullptr;
  bool combines_ = false;
  ReduceOp op_ = ReduceOp::sum;
  int divisor_ = 1;
  std::size_t element_ = 1;
  std::size_t chunks_ = 0, started_ = 0, stored_ = 0;
  std::array<Chunk, kWindow> window_;
  std::vector<const std::byte*> sources_;
};

}  // namespace cxtrain
