#include "cxtrain/comm/between_nodes/part_exchange.h"

#include <algorithm>
#include <span>

#include "cxtrain/base/align.h"

namespace cxtrain {

PartExchange::PartExchange(Links& links, std::size_t chunk_bytes)
    : links_(links),
      part_bytes_(round_up(divide_up(chunk_bytes, static_cast<std::size_t>(links.nodes())), kCacheLine)),
      sources_(static_cast<std::size_t>(links.nodes())) {
  const auto nodes = static_cast<std::size_t>(links.nodes());
  for (Chunk& chunk : window_) {
    chunk.memory.resize(2 * nodes * part_bytes_);
    chunk.peers.resize(nodes);
    for (std::size_t node = 0; node < nodes; ++node) {
      chunk.peers[node].outgoing = chunk.memory.data() + node * part_bytes_;
      chunk.peers[node].incoming = chunk.memory.data() + (nodes + node) * part_bytes_;
    }
  }
}

void PartExchange::scatter(PartedArray& array, ReduceOp op, int divisor) {
  combines_ = true;
  op_ = op;
  divisor_ = divisor;
  begin(array);
}

void PartExchange::gather(PartedArray& array) {
  combines_ = false;
  begin(array);
}

void PartExchange::begin(PartedArray& array) {
  array_ = &array;
  element_ = c10::elementSize(array.dtype());
  chunks_ = divide_up(array.count() * element_, part_bytes_);
  started_ = stored_ = 0;
}

bool PartExchange::proceed() {
  bool any = false;
  for (bool progress = true; progress && !done(); any = any || progress) {
    progress = links_.proceed();
    if (started_ < chunks_ && started_ < stored_ + kWindow) {
      Chunk& next = chunk(started_);
      next.first = started_ * (part_bytes_ / element_);
      next.last = std::min(array_->count(), next.first + part_bytes_ / element_);
      ++started_;
      start(next);
      progress = true;
    }
    if (stored_ < started_ && have_moved(links_, chunk(stored_).peers, &Peer::sent, &Peer::arrived)) {
      store(chunk(stored_++));
      progress = true;
    }
  }
  return any;
}

std::byte* PartExchange::values_of(int part, const Chunk& chunk, std::byte* memory) {
  if (std::byte* const there = array_->in_place(part, chunk.first, chunk.last)) return there;
  array_->read(part, chunk.first, chunk.last, memory);
  return memory;
}

/// Each node gets this node's values of the node's part, or, in a gather, this node's part.
void PartExchange::start(Chunk& next) {
  const std::size_t bytes = (next.last - next.first) * element_;
  Peer& own = next.peers[static_cast<std::size_t>(links_.node())];
  std::byte* const own_part = values_of(links_.node(), next, own.outgoing);
  own.received = own_part;
  for (int step = 1; step < links_.nodes(); ++step) {
    const int node = peer_of(links_.node(), step, links_.nodes());
    Peer& peer = next.peers[static_cast<std::size_t>(node)];
    std::byte* const values = combines_ ? values_of(node, next, peer.outgoing) : own_part;
    std::byte* const there = combines_ ? nullptr : array_->in_place(node, next.first, next.last);
    std::byte* const target = there != nullptr ? there : peer.incoming;
    peer.received = target;
    peer.sent = links_.send(node, {values, bytes});
    peer.arrived = links_.receive(node, {target, bytes});
  }
}

void PartExchange::store(Chunk& ready) {
  if (combines_) {
    std::byte* const result = ready.peers[static_cast<std::size_t>(links_.node())].incoming;
    for (std::size_t node = 0; node < sources_.size(); ++node) sources_[node] = ready.peers[node].received;
    reduce_elements(array_->dtype(), op_, sources_, {&result, 1}, ready.last - ready.first, divisor_);
    return array_->write(links_.node(), ready.first, ready.last, result);
  }
  for (int node = 0; node < links_.nodes(); ++node) {
    const Peer& peer = ready.peers[static_cast<std::size_t>(node)];
    const bool copied = peer.received == (node == links_.node() ? peer.outgoing : peer.incoming);
    if (copied) array_->write(node, ready.first, ready.last, peer.received);
  }
}

}  // namespace cxtrain
