#ifdef CXTRAIN_WITH_CUDA

#include "cxtrain/comm/nccl_group.h"

#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"

namespace cxtrain {

const Clock& NcclGroup::default_clock() {
  static const SteadyClock clock;
  return clock;
}

NcclGroup::NcclGroup(Options options, const NcclApi& api, const Clock& clock)
    : options_(std::move(options)), api_(api), clock_(clock) {
  connect();
}

NcclGroup::~NcclGroup() {
  if (std::uncaught_exceptions() > exceptions_) {
    abort();
    return;
  }
  try {
    close();
  } catch (const std::exception& error) {
    log_error(error.what());
  }
}

void NcclGroup::connect() {
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

void NcclGroup::call(const char* name,
                     const std::function<ncclResult_t(std::size_t, ncclComm_t)>& operation) {
  if (!is_open()) throw CommunicationError(std::string(name) + ": the NCCL communicators are closed");
  grouped(name, [&](std::size_t member) { return operation(member, comms_[member]); });
}

void NcclGroup::grouped(const char* name, const std::function<ncclResult_t(std::size_t)>& operation) {
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
  await(name);
}

void NcclGroup::await(const char* name) {
  const double deadline = clock_.now() + options_.timeout_seconds;
  for (std::size_t member = 0, polls = 0; member < comms_.size(); ++polls) {
    ncclResult_t status = ncclSuccess;
    if (const ncclResult_t asked = api_.comm_get_async_error(comms_[member], &status); asked != ncclSuccess)
      status = asked;
    if (status != ncclInProgress) {
      require(name, status, member++);
      continue;
    }
    if (clock_.now() > deadline) {
      abort();
      throw CommunicationError(std::string("dp: ") + name + ": GPU number " + std::to_string(member) +
                               " of " + std::to_string(options_.size) + " has not finished within " +
                               std::to_string(static_cast<std::int64_t>(options_.timeout_seconds)) + " s; " +
                               nccl_cure(ncclInProgress));
    }
    // Enqueuing takes microseconds, connecting up to seconds.
    constexpr std::size_t kBusyPolls = 1000;
    if (polls < kBusyPolls) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
}

void NcclGroup::require(const char* name, ncclResult_t status, std::size_t member) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  // Asked before the abort, which takes the answer with it.
  const char* last = api_.get_last_error(comms_.empty() ? nullptr : comms_[member]);
  const std::string detail = last == nullptr || *last == '\0' ? "no further word from NCCL" : last;
  abort();
  throw CommunicationError(std::string("dp: ") + name + " for GPU number " + std::to_string(member) + " of " +
                           std::to_string(options_.size) + ": " + api_.get_error_string(status) + " (" +
                           detail + "); " + nccl_cure(status));
}

void NcclGroup::close() {
  if (!is_open()) return;
  grouped("ncclCommFinalize", [&](std::size_t member) { return api_.comm_finalize(comms_[member]); });
  for (const ncclComm_t comm : std::exchange(comms_, {})) {
    const ncclResult_t status = api_.comm_destroy(comm);
    if (status != ncclSuccess)
      log_error(std::string("dp: ncclCommDestroy: ") + api_.get_error_string(status));
  }
}

void NcclGroup::abort() noexcept {
  for (const ncclComm_t comm : std::exchange(comms_, {})) {
    if (comm != nullptr) api_.comm_abort(comm);
  }
}

}  // namespace cxtrain

#endif
