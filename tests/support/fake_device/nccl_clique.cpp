#include "support/fake_device/nccl_clique.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "support/fake_device/byte_set.h"

namespace cxtrain::test {

namespace {

at::Tensor host_bytes(std::size_t bytes) { return at::empty({static_cast<std::int64_t>(bytes)}, at::kByte); }

std::string what(const NcclMessage& message) {
  return message.name + " of " + std::to_string(message.count) + " " + name_of(message.type);
}

}  // namespace

void NcclClique::join(NcclMember& member) { members_[static_cast<std::size_t>(member.rank)] = &member; }

bool NcclClique::complete() const {
  return std::none_of(members_.begin(), members_.end(), [](const NcclMember* m) { return m == nullptr; });
}

void NcclClique::post(FakeLock&, NcclMember& member, const NcclMessage& message) {
  ++member.pending;
  if (message.is_pair()) return post_pair(member, message);
  const auto rank = static_cast<std::size_t>(member.rank);
  const std::size_t place = posted_[rank]++ - moved_;
  if (place == slots_.size()) slots_.emplace_back(members_.size());
  slots_[place][rank] = message;
  while (!slots_.empty() && std::all_of(slots_.front().begin(), slots_.front().end(),
                                        [](const auto& posted) { return posted.has_value(); })) {
    const Slot slot = std::move(slots_.front());
    slots_.pop_front();
    ++moved_;
    for (NcclMember* const each : members_) --each->pending;
    if (slot[0]->name == "split")
      split(slot);
    else
      move(slot);
  }
}

void NcclClique::move(const Slot& slot) {
  for (const auto& message : slot) {
    if (!message->fits(*slot[0])) {
      for (NcclMember* const member : members_) member->error = ncclInvalidUsage;
      throw NcclMisuse("rank 0 calls " + what(*slot[0]) + ", another rank " + what(*message));
    }
  }
  VectorClock all;
  std::vector<std::vector<std::byte>> sent;
  for (std::size_t rank = 0; rank < slot.size(); ++rank) {
    const NcclMessage& message = *slot[rank];
    const auto accesses = message.accesses(static_cast<int>(rank), size());
    const Launch launch("nccl " + message.name, *message.stream, accesses);
    sent.push_back(bytes_at(message.send, message.bytes_sent(static_cast<int>(rank), size())));
    all.join(message.stream->clock);
  }
  std::vector<const std::byte*> from;
  for (const auto& bytes : sent) from.push_back(bytes.data());
  for (std::size_t rank = 0; rank < slot.size(); ++rank) {
    const NcclMessage& message = *slot[rank];
    if (message.bytes_received(static_cast<int>(rank), size()) > 0)
      combine(message, static_cast<int>(rank), from, static_cast<std::byte*>(message.receive));
    message.stream->clock.join(all);
  }
}

void NcclClique::split(const Slot& slot) {
  std::map<int, std::vector<std::pair<int, std::size_t>>> parts;  // by color: key, rank
  for (std::size_t rank = 0; rank < slot.size(); ++rank) {
    if (slot[rank]->color != NCCL_SPLIT_NOCOLOR) parts[slot[rank]->color].emplace_back(slot[rank]->key, rank);
  }
  for (auto& [color, ranks] : parts) {
    std::sort(ranks.begin(), ranks.end());
    const auto clique = std::make_shared<NcclClique>(static_cast<int>(ranks.size()));
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      NcclMember& part = *members_[ranks[i].second]->part;
      part.rank = static_cast<int>(i);
      part.clique = clique;
      clique->join(part);
    }
  }
}

void NcclClique::post_pair(NcclMember& member, const NcclMessage& message) {
  const bool sends = message.name == "send";
  const auto match = std::find_if(pairs_.begin(), pairs_.end(), [&](const auto& earlier) {
    return (earlier.second.name == "send") != sends && earlier.first->rank == message.peer &&
           earlier.second.peer == member.rank;
  });
  if (match == pairs_.end()) {
    pairs_.emplace_back(&member, message);
    return;
  }
  const auto [other, counterpart] = *match;
  pairs_.erase(match);
  --member.pending;
  --other->pending;
  const NcclMessage& from = sends ? message : counterpart;
  const NcclMessage& to = sends ? counterpart : message;
  if (from.count * size_of(from.type) != to.count * size_of(to.type)) {
    member.error = other->error = ncclInvalidUsage;
    throw NcclMisuse(what(from) + " meets " + what(to));
  }
  const Launch source("nccl send", *from.stream, from.accesses(0, size()));
  const Launch target("nccl recv", *to.stream, to.accesses(0, size()));
  std::memcpy(to.receive, from.send, from.count * size_of(from.type));
  to.stream->clock.join(from.stream->clock);
}

NcclRankClique::NcclRankClique(std::unique_ptr<Communicator> ranks)
    : NcclClique(ranks->size()), ranks_(std::move(ranks)) {}

void NcclRankClique::post(FakeLock& lock, NcclMember& member, const NcclMessage& message) {
  const int rank = ranks_->rank();
  if (message.name == "split") {
    lock.unlock();
    auto part = ranks_->split(message.color == NCCL_SPLIT_NOCOLOR ? -1 : message.color, message.key);
    lock.lock();
    if (member.part == nullptr) return;
    member.part->rank = part->rank();
    member.part->clique = std::make_shared<NcclRankClique>(std::move(part));
    return;
  }
  const Launch launch("nccl " + message.name, *message.stream, message.accesses(rank, size()));
  // Members of a collective send equally much, but for a broadcast, where the root's bytes are taken.
  const std::size_t bytes = message.count * size_of(message.type) *
                            (message.name == "reduce_scatter" ? static_cast<std::size_t>(size()) : 1);
  const at::Tensor own = host_bytes(bytes);
  if (message.bytes_sent(rank, size()) > 0) std::memcpy(own.mutable_data_ptr(), message.send, bytes);
  lock.unlock();
  at::Tensor all = own;
  if (message.name == "send") {
    ranks_->send(own, message.peer);
  } else if (message.name == "recv") {
    ranks_->recv(own, message.peer);
  } else if (message.name == "broadcast") {
    ranks_->broadcast(own, message.peer);
  } else {
    all = host_bytes(bytes * static_cast<std::size_t>(size()));
    ranks_->all_gather(all, own);
  }
  lock.lock();
  if (message.bytes_received(rank, size()) == 0) return;
  const auto* const received = static_cast<const std::byte*>(all.const_data_ptr());
  auto* const target = static_cast<std::byte*>(message.receive);
  if (message.is_pair() || message.name == "broadcast") {
    std::memcpy(target, received, bytes);
    return;
  }
  std::vector<const std::byte*> from;
  for (std::size_t i = 0; i < static_cast<std::size_t>(size()); ++i) from.push_back(received + i * bytes);
  combine(message, rank, from, target);
}

}  // namespace cxtrain::test
