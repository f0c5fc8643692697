#include "cxtrain/cuda/nccl_handle.h"

#include <cstring>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {
namespace {

std::size_t count_of(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

}  // namespace

NcclHandle::NcclHandle(World& world, const NcclLibrary& library)
    : world_(world), library_(library), rank_(world.rank()), size_(world.size()) {
  run_agreed(world, [this] {
    require("ncclGetVersion", library_.get_version(&version_));
    check_nccl_version(version_);
  });
  const ncclUniqueId id = agree_on_id();
  // Without it some MPI libraries deadlock: a rank that is still inside its broadcast does not answer NCCL.
  world.barrier();
  const Watchdog::Wait wait(watchdog(), "ncclCommInitRankConfig");
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  require("ncclCommInitRankConfig", library_.comm_init_rank_config(&comm_, size_, id, rank_, &config));
}

NcclHandle::NcclHandle(const NcclHandle& whole, ncclComm_t comm)
    : world_(whole.world_),
      library_(whole.library_),
      rank_(whole.rank_),
      size_(whole.size_),
      version_(whole.version_),
      comm_(comm) {
  call("ncclCommUserRank", [&](ncclComm_t part) { return library_.comm_user_rank(part, &rank_); });
  call("ncclCommCount", [&](ncclComm_t part) { return library_.comm_count(part, &size_); });
}

std::unique_ptr<NcclHandle> NcclHandle::split(int color, int key) {
  ncclComm_t part = nullptr;
  call("ncclCommSplit", [&](ncclComm_t whole) {
    return library_.comm_split(whole, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, nullptr);
  });
  return part == nullptr ? nullptr : std::unique_ptr<NcclHandle>(new NcclHandle(*this, part));
}

NcclHandle::~NcclHandle() {
  end_communicators(library_, {comm_}, failed_ || std::uncaught_exceptions() > exceptions_,
                    [this] { close(); });
}

ncclUniqueId NcclHandle::agree_on_id() const {
  ncclUniqueId id{};
  run_agreed(world_, [&] {
    if (!world_.is_root()) return;
    if (const ncclResult_t status = library_.get_unique_id(&id); status != ncclSuccess) {
      throw CommunicationError(told("ncclGetUniqueId", nccl_reason(library_, nullptr, status)));
    }
  });
  const std::string bytes = world_.broadcast(std::string(id.internal, sizeof id.internal));
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  return id;
}

void NcclHandle::all_reduce(const at::Tensor& tensor, ReduceOp op, cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(tensor.scalar_type());
  call("ncclAllReduce", [&](ncclComm_t comm) {
    void* const data = tensor.mutable_data_ptr();
    return library_.all_reduce(data, data, count_of(tensor), type, nccl_op(op), comm, stream);
  });
}

void NcclHandle::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op,
                                cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(input.scalar_type());
  call("ncclReduceScatter", [&](ncclComm_t comm) {
    return library_.reduce_scatter(input.const_data_ptr(), output.mutable_data_ptr(), count_of(output), type,
                                   nccl_op(op), comm, stream);
  });
}

// What is only moved goes as bytes, whatever its dtype.

void NcclHandle::all_gather(const at::Tensor& output, const at::Tensor& input, cudaStream_t stream) {
  call("ncclAllGather", [&](ncclComm_t comm) {
    return library_.all_gather(input.const_data_ptr(), output.mutable_data_ptr(), input.nbytes(), ncclUint8,
                               comm, stream);
  });
}

void NcclHandle::broadcast(const at::Tensor& tensor, int root, cudaStream_t stream) {
  call("ncclBroadcast", [&](ncclComm_t comm) {
    void* const data = tensor.mutable_data_ptr();
    return library_.broadcast(data, data, tensor.nbytes(), ncclUint8, root, comm, stream);
  });
}

void NcclHandle::send(const at::Tensor& tensor, int to, cudaStream_t stream) {
  call("ncclSend", [&](ncclComm_t comm) {
    return library_.send(tensor.const_data_ptr(), tensor.nbytes(), ncclUint8, to, comm, stream);
  });
}

void NcclHandle::recv(const at::Tensor& tensor, int from, cudaStream_t stream) {
  call("ncclRecv", [&](ncclComm_t comm) {
    return library_.recv(tensor.mutable_data_ptr(), tensor.nbytes(), ncclUint8, from, comm, stream);
  });
}

void NcclHandle::call(const char* name, const std::function<ncclResult_t(ncclComm_t)>& operation) {
  if (failed_) throw CommunicationError(told(name, "the communicator has failed before"));
  const Watchdog::Wait wait(watchdog(), name);
  require(name, operation(comm_));
}

std::string NcclHandle::find_error() const {
  if (failed_) return {};
  const ncclResult_t status = nccl_async_error(library_, comm_);
  if (status == ncclSuccess) return {};
  return told("NCCL's connections", nccl_reason(library_, comm_, status));
}

std::string NcclHandle::told(const char* name, const std::string& why) const {
  return "rank " + std::to_string(rank_) + " of " + std::to_string(size_) + " on " + world_.facts().hostname +
         ": " + name + ": " + why;
}

void NcclHandle::require(const char* name, ncclResult_t status) {
  if (status == ncclSuccess) return;
  failed_ = true;
  throw CommunicationError(told(name, nccl_reason(library_, comm_, status)));
}

void NcclHandle::close() {
  const Watchdog::Wait wait(watchdog(), "ncclCommFinalize");
  require("ncclCommFinalize", library_.comm_finalize(comm_));
  require("ncclCommDestroy", library_.comm_destroy(comm_));
}

}  // namespace cxtrain
