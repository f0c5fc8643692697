#ifdef CXTRAIN_WITH_CUDA

#include "nccl_peers.h"

#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"

namespace cxtrain {

NcclPeers::NcclPeers(Options options, const NcclLibrary& api, const Clock& clock)
    : options_(std::move(options)), api_(api), calls_(api, clock, options_.timeout_seconds) {
  connect();
}

NcclPeers::~NcclPeers() {
  calls_.end([this] { close(); }, [this] { abort(); });
}

void NcclPeers::connect() {
  require("ncclGetVersion", api_.get_version(&version_), 0);
  ncclUniqueId id{};
  require("ncclGetUniqueId", api_.get_unique_id(&id), 0);
  comms_.assign(options_.size, nullptr);
  grouped("ncclCommInitRankConfig", [&](std::size_t member) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return api_.comm_init_rank_config(&comms_[member], static_cast<int>(options_.size), id,
                                      static_cast<int>(member), &config);
  });
}

void NcclPeers::call(const char* name,
                     const std::function<ncclResult_t(std::size_t, ncclComm_t)>& operation) {
  if (!is_open()) throw CommunicationError(std::string(name) + ": the NCCL communicators are closed");
  grouped(name, [&](std::size_t member) { return operation(member, comms_[member]); });
}

void NcclPeers::grouped(const char* name, const std::function<ncclResult_t(std::size_t)>& operation) {
  require("ncclGroupStart", api_.group_start(), 0);
  ncclResult_t status = ncclSuccess;
  std::size_t member = 0;
  for (; member < options_.size; ++member) {
    options_.select_device(member);
    status = operation(member);
    if (status != ncclSuccess && status != ncclInProgress) break;
  }
  // A group that was begun is ended, whatever became of it: NCCL's state is the thread's.
  const ncclResult_t ended = api_.group_end();
  if (member < options_.size) require(name, status, member);
  require(name, ended, 0);
  const double deadline = calls_.deadline();
  for (member = 0; member < comms_.size(); ++member) {
    if (status = calls_.wait(comms_[member], deadline); status != ncclSuccess) fail(name, status, member);
  }
}

void NcclPeers::require(const char* name, ncclResult_t status, std::size_t member) {
  if (status != ncclSuccess && status != ncclInProgress) fail(name, status, member);
}

void NcclPeers::fail(const char* name, ncclResult_t status, std::size_t member) {
  const std::string reason = calls_.reason(comms_.empty() ? nullptr : comms_[member], status);
  abort();
  throw CommunicationError(std::string("dp: ") + name + " for GPU number " + std::to_string(member) + " of " +
                           std::to_string(options_.size) + ": " + reason);
}

void NcclPeers::close() {
  if (!is_open()) return;
  grouped("ncclCommFinalize", [&](std::size_t member) { return api_.comm_finalize(comms_[member]); });
  for (const ncclComm_t comm : std::exchange(comms_, {})) {
    const ncclResult_t status = api_.comm_destroy(comm);
    if (status != ncclSuccess)
      log_error(std::string("dp: ncclCommDestroy: ") + api_.get_error_string(status));
  }
}

void NcclPeers::abort() noexcept {
  for (const ncclComm_t comm : std::exchange(comms_, {})) {
    if (comm != nullptr) api_.comm_abort(comm);
  }
}

}  // namespace cxtrain

#endif
