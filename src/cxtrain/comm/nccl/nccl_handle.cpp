#ifdef CXTRAIN_WITH_CUDA

#include "cxtrain/comm/nccl/nccl_handle.h"

#include <cstring>
#include <map>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {
namespace {

std::size_t count_of(const at::Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

}  // namespace

std::optional<std::pair<int, int>> ranks_sharing_a_gpu(std::span<const std::string> uuids) {
  std::map<std::string, int> owner;
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    const auto [entry, is_new] = owner.emplace(uuids[rank], static_cast<int>(rank));
    if (!is_new) return std::pair{entry->second, static_cast<int>(rank)};
  }
  return std::nullopt;
}

NcclHandle::NcclHandle(World& world, Options options, const NcclLibrary& api, const Clock& clock)
    : options_(std::move(options)),
      api_(api),
      calls_(api, clock, options_.timeout_seconds),
      hostname_(world.facts().hostname),
      rank_(world.rank()),
      size_(world.size()) {
  run_agreed(world, [this] { check_version(); });
  refuse_shared_gpu(world);
  const ncclUniqueId id = agree_on_id(world);
  // Without it some MPI libraries deadlock: a rank that is still inside its broadcast does not answer NCCL.
  world.barrier();
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  await("ncclCommInitRankConfig", api_.comm_init_rank_config(&comm_, size_, id, rank_, &config));
}

NcclHandle::NcclHandle(const NcclHandle& whole, ncclComm_t comm)
    : options_(whole.options_),
      api_(whole.api_),
      calls_(whole.calls_),
      hostname_(whole.hostname_),
      rank_(whole.rank_),
      size_(whole.size_),
      version_(whole.version_),
      comm_(comm) {
  await("ncclCommSplit", ncclInProgress);
  call("ncclCommUserRank", [&](ncclComm_t part) { return api_.comm_user_rank(part, &rank_); });
  call("ncclCommCount", [&](ncclComm_t part) { return api_.comm_count(part, &size_); });
}

std::unique_ptr<NcclHandle> NcclHandle::split(int color, int key) {
  ncclComm_t part = nullptr;
  // The whole one is busy until it has made the part, which then has to connect.
  call("ncclCommSplit", [&](ncclComm_t whole) {
    return api_.comm_split(whole, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key, &part, nullptr);
  });
  return part == nullptr ? nullptr : std::unique_ptr<NcclHandle>(new NcclHandle(*this, part));
}

NcclHandle::~NcclHandle() {
  calls_.end([this] { close(); }, [this] { abort(); });
}

void NcclHandle::check_version() {
  if (const ncclResult_t status = api_.get_version(&version_); status != ncclSuccess) {
    fail("ncclGetVersion", status);
  }
  const bool same_major = version_ / 10000 == NCCL_VERSION_CODE / 10000;
  if (same_major && version_ >= NCCL_VERSION_CODE) return;
  throw CommunicationError(
      "this program was built for NCCL " + nccl_version_text(NCCL_VERSION_CODE) + " and found NCCL " +
      nccl_version_text(version_) +
      ", which is too old or of another generation; put the newer libnccl.so.2 first in "
      "LD_LIBRARY_PATH (LibTorch's own lies beside it), or rebuild against the older one");
}

void NcclHandle::refuse_shared_gpu(World& world) const {
  const std::vector<std::string> uuids = world.all_gather(options_.gpu_uuid);
  run_agreed(world, [&] {
    const auto pair = ranks_sharing_a_gpu(uuids);
    if (!pair) return;
    throw CommunicationError(
        "NCCL needs a GPU for each rank, but ranks " + std::to_string(pair->first) + " and " +
        std::to_string(pair->second) + " share " + uuids[static_cast<std::size_t>(pair->first)] +
        "; start one rank per GPU, or see that the launcher does not show all ranks the same one");
  });
}

ncclUniqueId NcclHandle::agree_on_id(World& world) const {
  ncclUniqueId id{};
  run_agreed(world, [&] {
    if (!world.is_root()) return;
    const ncclResult_t status = api_.get_unique_id(&id);
    if (status == ncclSuccess) return;
    throw CommunicationError("rank 0 on " + hostname_ +
                             ": ncclGetUniqueId: " + calls_.reason(nullptr, status));
  });
  const std::string bytes = world.broadcast(std::string(id.internal, sizeof id.internal));
  std::memcpy(id.internal, bytes.data(), sizeof id.internal);
  return id;
}

void NcclHandle::all_reduce(const at::Tensor& tensor, ReduceOp op, cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(tensor.scalar_type());
  call("ncclAllReduce", [&](ncclComm_t comm) {
    void* const data = tensor.mutable_data_ptr();
    return api_.all_reduce(data, data, count_of(tensor), type, nccl_op(op), comm, stream);
  });
}

void NcclHandle::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op,
                                cudaStream_t stream) {
  const ncclDataType_t type = nccl_type(input.scalar_type());
  call("ncclReduceScatter", [&](ncclComm_t comm) {
    return api_.reduce_scatter(input.const_data_ptr(), output.mutable_data_ptr(), count_of(output), type,
                               nccl_op(op), comm, stream);
  });
}

// What is only moved goes as bytes, whatever its dtype.

void NcclHandle::all_gather(const at::Tensor& output, const at::Tensor& input, cudaStream_t stream) {
  call("ncclAllGather", [&](ncclComm_t comm) {
    return api_.all_gather(input.const_data_ptr(), output.mutable_data_ptr(), input.nbytes(), ncclUint8, comm,
                           stream);
  });
}

void NcclHandle::broadcast(const at::Tensor& tensor, int root, cudaStream_t stream) {
  call("ncclBroadcast", [&](ncclComm_t comm) {
    void* const data = tensor.mutable_data_ptr();
    return api_.broadcast(data, data, tensor.nbytes(), ncclUint8, root, comm, stream);
  });
}

void NcclHandle::send(const at::Tensor& tensor, int to, cudaStream_t stream) {
  call("ncclSend", [&](ncclComm_t comm) {
    return api_.send(tensor.const_data_ptr(), tensor.nbytes(), ncclUint8, to, comm, stream);
  });
}

void NcclHandle::recv(const at::Tensor& tensor, int from, cudaStream_t stream) {
  call("ncclRecv", [&](ncclComm_t comm) {
    return api_.recv(tensor.mutable_data_ptr(), tensor.nbytes(), ncclUint8, from, comm, stream);
  });
}

void NcclHandle::call(const char* name, const std::function<ncclResult_t(ncclComm_t)>& operation) {
  if (!is_open()) throw CommunicationError(std::string(name) + ": the NCCL communicator is closed");
  await(name, operation(comm_));
}

void NcclHandle::check_async() {
  if (is_open()) await("the collectives under way", ncclInProgress);
}

void NcclHandle::await(const char* name, ncclResult_t status) {
  if (status == ncclInProgress) status = calls_.wait(comm_, calls_.deadline());
  if (status != ncclSuccess) fail(name, status);
}

void NcclHandle::fail(const char* name, ncclResult_t status) {
  const std::string reason = calls_.reason(comm_, status);
  abort();
  throw CommunicationError("rank " + std::to_string(rank_) + " of " + std::to_string(size_) + " on " +
                           hostname_ + ": " + name + ": " + reason);
}

void NcclHandle::close() {
  if (!is_open()) return;
  await("ncclCommFinalize", api_.comm_finalize(comm_));
  const ncclResult_t status = api_.comm_destroy(std::exchange(comm_, nullptr));
  if (status == ncclSuccess) return;
  throw CommunicationError("rank " + std::to_string(rank_) + " on " + hostname_ +
                           ": ncclCommDestroy: " + api_.get_error_string(status));
}

void NcclHandle::abort() noexcept {
  if (is_open()) api_.comm_abort(std::exchange(comm_, nullptr));
}

}  // namespace cxtrain

#endif
