#include "cxtrain/comm/between_nodes/slice_exchange.h"

#include <algorithm>

#include "cxtrain/base/align.h"

namespace cxtrain {

SliceExchange::SliceExchange(Links& links, std::size_t chunk_bytes)
    : links_(links),
      chunk_bytes_(round_up(chunk_bytes, kGrain)),
      sources_(static_cast<std::size_t>(links.nodes())) {
  const auto nodes = static_cast<std::size_t>(links.nodes());
  const std::size_t share_bytes = round_up(divide_up(chunk_bytes_, nodes), kGrain);
  for (Chunk& chunk : window_) {
    chunk.memory.resize(chunk_bytes_ + nodes * share_bytes);
    chunk.peers.resize(nodes);
    for (std::size_t node = 0; node < nodes; ++node)
      chunk.peers[node].values = chunk.memory.data() + chunk_bytes_ + node * share_bytes;
  }
}

void SliceExchange::begin(ExchangedArray& array) {
  array_ = &array;
  element_ = array.element_bytes();
  chunks_ = divide_up(array.count() * element_, chunk_bytes_);
  started_ = folded_ = stored_ = 0;
}

bool SliceExchange::proceed() {
  bool any = false;
  for (bool progress = true; progress && !done(); any = any || progress) {
    progress = links_.proceed();
    // The order of these two is the order of the bytes on a link.
    if (may_send_values()) {
      if (started_ < stored_ + kWindow) send_values(), progress = true;
      // The results overwrite the values that were sent.
    } else if (folded_ < started_ &&
               have_moved(links_, chunk(folded_).peers, &Peer::values_sent, &Peer::values_received)) {
      fold(), progress = true;
    }
    if (stored_ < folded_ &&
        have_moved(links_, chunk(stored_).peers, &Peer::result_sent, &Peer::result_received)) {
      const Chunk& complete = chunk(stored_++);
      if (complete.values == complete.memory.data())
        array_->write(complete.first, complete.last, complete.values);
      progress = true;
    }
  }
  return any;
}

SliceExchange::Share SliceExchange::share(const Chunk& chunk, int node) const {
  const std::size_t bytes = (chunk.last - chunk.first) * element_;
  const std::size_t each = round_up(divide_up(bytes, static_cast<std::size_t>(links_.nodes())), kGrain);
  const std::size_t begin = std::min(bytes, each * static_cast<std::size_t>(node));
  return {begin, std::min(bytes, begin + each)};
}

void SliceExchange::send_values() {
  Chunk& next = chunk(started_);
  next.first = started_ * (chunk_bytes_ / element_);
  next.last = std::min(array_->count(), next.first + chunk_bytes_ / element_);
  next.values = array_->in_place(next.first, next.last);
  if (next.values == nullptr) {
    next.values = next.memory.data();
    array_->read(next.first, next.last, next.values);
  }
  const std::size_t own = share(next, links_.node()).size();
  for (int step = 1; step < links_.nodes(); ++step) {
    const int node = peer_of(links_.node(), step, links_.nodes());
    Peer& peer = next.peers[static_cast<std::size_t>(node)];
    const Share theirs = share(next, node);
    peer.values_sent = links_.send(node, {next.values + theirs.begin, theirs.size()});
    peer.values_received = links_.receive(node, {peer.values, own});
  }
  ++started_;
}

void SliceExchange::fold() {
  Chunk& ready = chunk(folded_++);
  const Share own = share(ready, links_.node());
  std::byte* const result = ready.values + own.begin;
  for (int node = 0; node < links_.nodes(); ++node) {
    const auto at = static_cast<std::size_t>(node);
    sources_[at] = node == links_.node() ? result : ready.peers[at].values;
  }
  if (own.size() > 0) array_->combine(sources_, result, own.size() / element_);
  for (int step = 1; step < links_.nodes(); ++step) {
    const int node = peer_of(links_.node(), step, links_.nodes());
    Peer& peer = ready.peers[static_cast<std::size_t>(node)];
    const Share theirs = share(ready, node);
    peer.result_sent = links_.send(node, {result, own.size()});
    peer.result_received = links_.receive(node, {ready.values + theirs.begin, theirs.size()});
  }
}

}  // namespace cxtrain
