#include "support/fake_device/nccl_table.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "support/fake_device/fake_device.h"

namespace cxtrain::test {

namespace {

/// What a thread has asked for since it began a group.
struct Group {
  int depth = 0;
  std::vector<std::pair<NcclMember*, NcclMessage>> messages;
  std::vector<NcclMember*> begun;  ///< members that are being made
};
thread_local Group group;

}  // namespace

ncclResult_t NcclTable::begin(const std::string& name, const std::string& details) {
  calls.push_back(details.empty() ? name : name + " " + details);
  const auto planned = failures.find(name);
  if (planned == failures.end()) return ncclSuccess;
  const ncclResult_t error = planned->second;
  failures.erase(planned);
  last_error = "the test wants " + name + " to fail";
  return error;
}

ncclResult_t NcclTable::refuse(ncclResult_t error, std::string reason) {
  last_error = std::move(reason);
  return error;
}

ncclResult_t NcclTable::init(ncclComm_t* comm, int size, const ncclUniqueId& id, int rank,
                             const ncclConfig_t* config) {
  FakeLock lock(fake_mutex());
  if (const ncclResult_t failed =
          begin("comm_init_rank_config", std::to_string(rank) + " of " + std::to_string(size)))
    return failed;
  NcclMember& member = make(config == nullptr || config->blocking != 0);
  *comm = reinterpret_cast<ncclComm_t>(&member);
  member.rank = rank;
  if (host_ranks != nullptr) {
    if (host_ranks->size() != size || host_ranks->rank() != rank)
      return refuse(ncclInvalidArgument, "another rank than the host's communicator says");
    lock.unlock();
    auto ranks = host_ranks->split(0, rank);
    lock.lock();
    member.clique = std::make_shared<NcclRankClique>(std::move(ranks));
  } else {
    auto& clique = cliques[std::string(id.internal, sizeof id.internal)];
    if (!clique) clique = std::make_shared<NcclClique>(size);
    member.clique = clique;
  }
  member.clique->join(member);
  changed.notify_all();
  if (group.depth > 0) {
    group.begun.push_back(&member);
    return ncclSuccess;
  }
  return finish(lock, {&member});
}

NcclMember& NcclTable::make(bool blocking) {
  members.push_back(std::make_unique<NcclMember>());
  members.back()->blocking = blocking;
  members.back()->polls = blocking ? 0 : 1;
  return *members.back();
}

ncclResult_t NcclTable::operation(ncclComm_t comm, NcclMessage message, cudaStream_t stream) {
  FakeLock lock(fake_mutex());
  NcclMember& member = member_of(comm);
  std::string details = std::to_string(message.count) + " " + name_of(message.type);
  if (message.is_pair())
    details += (message.name == "send" ? " to " : " from ") + std::to_string(message.peer);
  if (const ncclResult_t failed = begin(message.name, details)) return failed;
  if (member.aborted || member.destroyed || !member.clique)
    return refuse(ncclInvalidArgument, message.name + ": the communicator is closed");
  if (size_of(message.type) == 0) return refuse(ncclInvalidArgument, "no such dtype");
  message.stream = &Timeline::instance().by_handle(stream);
  for (const Access& access : message.accesses(member.rank, member.clique->size())) {
    const FakeStream* const owner = OrderChecker::instance().owner(access.bytes[0]);
    if (owner == nullptr || owner->stream.device() != message.stream->stream.device())
      return refuse(ncclInvalidArgument,
                    message.name + ": memory that is not of " + message.stream->stream.device().str());
  }
  const bool reduces = message.name.find("reduce") != std::string::npos;
  if (reduces && !can_reduce(message.type, message.op))
    return refuse(ncclInvalidArgument, message.name + ": cannot combine " + name_of(message.type));
  return take(lock, member, message);
}

ncclResult_t NcclTable::split(ncclComm_t comm, int color, int key, ncclComm_t* part,
                              const ncclConfig_t* config) {
  FakeLock lock(fake_mutex());
  NcclMember& member = member_of(comm);
  if (const ncclResult_t failed = begin("comm_split", std::to_string(color) + " " + std::to_string(key)))
    return failed;
  member.part = nullptr;
  if (color != NCCL_SPLIT_NOCOLOR)
    member.part =
        &make(config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT ? member.blocking
                                                                             : config->blocking != 0);
  *part = reinterpret_cast<ncclComm_t>(member.part);
  NcclMessage message;
  message.name = "split";
  message.color = color;
  message.key = key;
  return take(lock, member, message);
}

ncclResult_t NcclTable::take(FakeLock& lock, NcclMember& member, const NcclMessage& message) {
  if (group.depth > 0) {
    group.messages.emplace_back(&member, message);
    return ncclSuccess;
  }
  if (const ncclResult_t failed = post(lock, member, message)) return failed;
  return finish(lock, {&member});
}

ncclResult_t NcclTable::post(FakeLock& lock, NcclMember& member, const NcclMessage& message) {
  if (!member.blocking) member.polls = 1;
  if (hanging > 0 && message.stream != nullptr && !message.is_pair()) {
    if (hung.insert(&member).second && hung.size() >= hanging_members(member)) hanging = 0;
    Timeline::instance().hold(*message.stream);
    member.held.push_back(message.stream);
    return ncclSuccess;
  }
  try {
    member.clique->post(lock, member, message);
  } catch (const NcclMisuse& misuse) {
    changed.notify_all();
    return refuse(ncclInvalidUsage, misuse.what());
  } catch (const FakeDeviceRace&) {
    changed.notify_all();
    throw;
  }
  changed.notify_all();
  return ncclSuccess;
}

std::size_t NcclTable::hanging_members(const NcclMember& member) const {
  return host_ranks != nullptr ? 1 : static_cast<std::size_t>(member.clique->size());
}

bool NcclTable::busy(const NcclMember& member) const {
  return !member.clique || !member.clique->complete() || member.pending > 0;
}

ncclResult_t NcclTable::finish(FakeLock& lock, const std::vector<NcclMember*>& of) {
  ncclResult_t result = ncclSuccess;
  for (NcclMember* const member : of) {
    if (!member->blocking) {
      result = ncclInProgress;
      continue;
    }
    const bool done = changed.wait_for(lock, std::chrono::duration<double>(wait_limit_seconds), [&] {
      return member->aborted || member->error != ncclSuccess || !busy(*member);
    });
    if (!done) return refuse(ncclInternalError, "other members have not come to the same call");
    if (member->aborted) return refuse(ncclInternalError, "the communicator was aborted");
    if (member->error != ncclSuccess) return member->error;
  }
  return result;
}

ncclResult_t NcclTable::group_start() {
  const FakeLock lock(fake_mutex());
  if (const ncclResult_t failed = begin("group_start")) return failed;
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t NcclTable::group_end() {
  FakeLock lock(fake_mutex());
  const ncclResult_t failed = begin("group_end");
  if (group.depth == 0) return refuse(ncclInvalidUsage, "a group ends that has not begun");
  if (--group.depth > 0) return failed;
  Group ended = std::exchange(group, {});
  if (failed != ncclSuccess) return failed;
  if (host_ranks != nullptr) {
    // Between two ranks the lower one sends first; all ranks meet their pairs in the same order.
    std::stable_sort(ended.messages.begin(), ended.messages.end(), [](const auto& a, const auto& b) {
      const auto order = [](const NcclMember& member, const NcclMessage& message) {
        const bool pair = message.is_pair();
        return std::tuple(pair, pair ? std::min(member.rank, message.peer) : 0,
                          pair ? std::max(member.rank, message.peer) : 0,
                          pair && (message.name == "send") != (member.rank < message.peer));
      };
      return order(*a.first, a.second) < order(*b.first, b.second);
    });
  }
  std::vector<NcclMember*> of = ended.begun;
  for (const auto& [member, message] : ended.messages) {
    if (const ncclResult_t refused = post(lock, *member, message)) return refused;
    of.push_back(member);
  }
  return finish(lock, of);
}

ncclResult_t NcclTable::ask(ncclComm_t comm, ncclResult_t* error) {
  const FakeLock lock(fake_mutex());
  NcclMember& member = member_of(comm);
  if (reported != ncclSuccess) {
    *error = reported;
  } else if (member.error != ncclSuccess) {
    *error = member.error;
  } else if (member.polls > 0) {
    --member.polls;
    *error = ncclInProgress;
  } else {
    *error = busy(member) ? ncclInProgress : ncclSuccess;
  }
  return ncclSuccess;
}

ncclResult_t NcclTable::close(ncclComm_t comm, const char* name, bool NcclMember::*flag) {
  const FakeLock lock(fake_mutex());
  if (const ncclResult_t failed = begin(name)) return failed;
  NcclMember& member = member_of(comm);
  if (flag == nullptr) {
    member.polls = member.blocking ? 0 : 1;
    return member.blocking ? ncclSuccess : ncclInProgress;
  }
  member.*flag = true;
  for (FakeStream* const stream : std::exchange(member.held, {})) Timeline::instance().release(*stream);
  changed.notify_all();
  return ncclSuccess;
}

}  // namespace cxtrain::test
