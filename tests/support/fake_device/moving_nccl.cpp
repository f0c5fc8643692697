#ifdef CXTRAIN_WITH_CUDA

#include "support/fake_device/moving_nccl.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>

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

NcclMember& member_of(ncclComm_t comm) { return *reinterpret_cast<NcclMember*>(comm); }

const char* error_text(ncclResult_t status) {
  switch (status) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

}  // namespace

/// What the functions of the library share.
struct MovingNccl::Table {
  Table(MovingNccl& owner, Communicator* ranks) : nccl(owner), host_ranks(ranks) {}

  /// Notes the call; its outcome if the test has said that it fails.
  ncclResult_t begin(const std::string& name, const std::string& details = "") {
    calls.push_back(details.empty() ? name : name + " " + details);
    const auto planned = failures.find(name);
    if (planned == failures.end()) return ncclSuccess;
    const ncclResult_t error = planned->second;
    failures.erase(planned);
    last_error = "the test wants " + name + " to fail";
    return error;
  }

  ncclResult_t refuse(ncclResult_t error, std::string reason) {
    last_error = std::move(reason);
    return error;
  }

  ncclResult_t init(ncclComm_t* comm, int size, const ncclUniqueId& id, int rank,
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

  NcclMember& make(bool blocking) {
    members.push_back(std::make_unique<NcclMember>());
    members.back()->blocking = blocking;
    members.back()->polls = blocking ? 0 : 1;
    return *members.back();
  }

  ncclResult_t operation(ncclComm_t comm, NcclMessage message, cudaStream_t stream) {
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

  ncclResult_t split(ncclComm_t comm, int color, int key, ncclComm_t* part, const ncclConfig_t* config) {
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

  /// At once, or at the group's end.
  ncclResult_t take(FakeLock& lock, NcclMember& member, const NcclMessage& message) {
    if (group.depth > 0) {
      group.messages.emplace_back(&member, message);
      return ncclSuccess;
    }
    if (const ncclResult_t failed = post(lock, member, message)) return failed;
    return finish(lock, {&member});
  }

  ncclResult_t post(FakeLock& lock, NcclMember& member, const NcclMessage& message) {
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

  std::size_t hanging_members(const NcclMember& member) const {
    return host_ranks != nullptr ? 1 : static_cast<std::size_t>(member.clique->size());
  }

  bool busy(const NcclMember& member) const {
    return !member.clique || !member.clique->complete() || member.pending > 0;
  }

  /// Waits where the members are blocking.
  ncclResult_t finish(FakeLock& lock, const std::vector<NcclMember*>& of) {
    ncclResult_t result = ncclSuccess;
    for (NcclMember* const member : of) {
      if (!member->blocking) {
        result = ncclInProgress;
        continue;
      }
      const bool done = changed.wait_for(lock, std::chrono::duration<double>(nccl.wait_limit_seconds), [&] {
        return member->aborted || member->error != ncclSuccess || !busy(*member);
      });
      if (!done) return refuse(ncclInternalError, "other members have not come to the same call");
      if (member->aborted) return refuse(ncclInternalError, "the communicator was aborted");
      if (member->error != ncclSuccess) return member->error;
    }
    return result;
  }

  ncclResult_t group_end() {
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

  ncclResult_t ask(ncclComm_t comm, ncclResult_t* error) {
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

  ncclResult_t close(ncclComm_t comm, const char* name, bool NcclMember::*flag) {
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

  MovingNccl& nccl;
  Communicator* host_ranks;
  std::map<std::string, std::shared_ptr<NcclClique>> cliques;  ///< by unique id
  std::vector<std::unique_ptr<NcclMember>> members;            ///< all there ever were
  std::vector<std::string> calls;
  std::map<std::string, ncclResult_t> failures;
  std::set<NcclMember*> hung;  ///< members that have come to the collective that never ends
  int hanging = 0;
  ncclResult_t reported = ncclSuccess;
  std::string last_error;
  std::uint64_t ids = 0;
  std::condition_variable_any changed;
};

MovingNccl::MovingNccl() : table_(std::make_unique<Table>(*this, nullptr)) {}
MovingNccl::MovingNccl(Communicator& ranks) : table_(std::make_unique<Table>(*this, &ranks)) {}

MovingNccl::~MovingNccl() {
  const FakeLock lock(fake_mutex());
  for (const auto& member : table_->members) {
    for (FakeStream* const stream : member->held) Timeline::instance().release(*stream);
  }
}

NcclLibrary MovingNccl::library() {
  Table* const t = table_.get();
  NcclLibrary library;
  library.get_version = [this](int* code) { return *code = version, ncclSuccess; };
  library.get_unique_id = [t](ncclUniqueId* id) {
    const FakeLock lock(fake_mutex());
    if (const ncclResult_t failed = t->begin("get_unique_id")) return failed;
    *id = {};
    const std::uint64_t number = ++t->ids;
    std::memcpy(id->internal, &number, sizeof number);
    return ncclSuccess;
  };
  library.comm_init_rank_config = [t](ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                      ncclConfig_t* config) {
    return t->init(comm, ranks, id, rank, config);
  };
  library.comm_split = [t](ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
    return t->split(comm, color, key, part, config);
  };
  library.comm_count = [](ncclComm_t comm, int* count) {
    const FakeLock lock(fake_mutex());
    return *count = member_of(comm).clique->size(), ncclSuccess;
  };
  library.comm_user_rank = [](ncclComm_t comm, int* rank) {
    const FakeLock lock(fake_mutex());
    return *rank = member_of(comm).rank, ncclSuccess;
  };
  library.comm_get_async_error = [t](ncclComm_t comm, ncclResult_t* error) { return t->ask(comm, error); };
  library.all_reduce = [t](const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return t->operation(comm, {"all_reduce", send, receive, count, type, op}, stream);
  };
  library.reduce = [t](const void* send, void* receive, std::size_t count, ncclDataType_t type,
                       ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
    return t->operation(comm, {"reduce", send, receive, count, type, op, root}, stream);
  };
  library.reduce_scatter = [t](const void* send, void* receive, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    return t->operation(comm, {"reduce_scatter", send, receive, count, type, op}, stream);
  };
  library.all_gather = [t](const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    return t->operation(comm, {"all_gather", send, receive, count, type}, stream);
  };
  library.broadcast = [t](const void* send, void* receive, std::size_t count, ncclDataType_t type, int root,
                          ncclComm_t comm, cudaStream_t stream) {
    return t->operation(comm, {"broadcast", send, receive, count, type, ncclSum, root}, stream);
  };
  library.send = [t](const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                     cudaStream_t stream) {
    return t->operation(comm, {"send", send, nullptr, count, type, ncclSum, peer}, stream);
  };
  library.recv = [t](void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                     cudaStream_t stream) {
    return t->operation(comm, {"recv", nullptr, receive, count, type, ncclSum, peer}, stream);
  };
  library.group_start = [t] {
    const FakeLock lock(fake_mutex());
    if (const ncclResult_t failed = t->begin("group_start")) return failed;
    ++group.depth;
    return ncclSuccess;
  };
  library.group_end = [t] { return t->group_end(); };
  library.comm_finalize = [t](ncclComm_t comm) { return t->close(comm, "comm_finalize", nullptr); };
  library.comm_destroy = [t](ncclComm_t comm) {
    return t->close(comm, "comm_destroy", &NcclMember::destroyed);
  };
  library.comm_abort = [t](ncclComm_t comm) { return t->close(comm, "comm_abort", &NcclMember::aborted); };
  library.get_error_string = error_text;
  library.get_last_error = [t](ncclComm_t) { return t->last_error.c_str(); };
  return library;
}

void MovingNccl::fail_next(const std::string& call, ncclResult_t error) {
  const FakeLock lock(fake_mutex());
  table_->failures[call] = error;
}

void MovingNccl::hang_next() {
  const FakeLock lock(fake_mutex());
  table_->hanging = 1;
  table_->hung.clear();
}

void MovingNccl::report_async(ncclResult_t error) {
  const FakeLock lock(fake_mutex());
  table_->reported = error;
}

std::vector<std::string> MovingNccl::calls() const {
  const FakeLock lock(fake_mutex());
  return table_->calls;
}

int MovingNccl::count(const std::string& call_or_its_beginning) const {
  const std::vector<std::string> all = calls();
  return static_cast<int>(std::count_if(all.begin(), all.end(), [&](const std::string& call) {
    return call == call_or_its_beginning || call.starts_with(call_or_its_beginning + " ");
  }));
}

}  // namespace cxtrain::test

#endif
