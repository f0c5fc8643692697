#include "support/fake_device/moving_nccl.h"

#include <algorithm>
#include <cstring>

#include "support/fake_device/nccl_table.h"

namespace cxtrain::test {

namespace {

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

MovingNccl::MovingNccl() : table_(std::make_unique<NcclTable>(nullptr)) {}
MovingNccl::MovingNccl(Communicator& ranks) : table_(std::make_unique<NcclTable>(&ranks)) {}

MovingNccl::~MovingNccl() {
  const FakeLock lock(fake_mutex());
  for (const auto& member : table_->members) {
    for (FakeStream* const stream : member->held) Timeline::instance().release(*stream);
  }
}

NcclLibrary MovingNccl::library() {
  NcclTable* const t = table_.get();
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
  library.group_start = [t] { return t->group_start(); };
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

void MovingNccl::set_wait_limit(double seconds) {
  const FakeLock lock(fake_mutex());
  table_->wait_limit_seconds = seconds;
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
