#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cxtrain/cluster/watchdog.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/cuda/nccl_library.h"

namespace cxtrain::test {

/// What a watchdog has said, for a test to wait for.
class Alarms {
 public:
  void add(Watchdog::Cause cause, const std::string& operation) {
    {
      const std::lock_guard lock(mutex_);
      alarms_.emplace_back(cause, operation);
    }
    changed_.notify_all();
  }
  /// The first of this cause; waits for it, at most half a minute.
  std::string first(Watchdog::Cause cause) {
    std::unique_lock lock(mutex_);
    const auto is_one = [&](const auto& alarm) { return alarm.first == cause; };
    const auto found = [&] { return std::any_of(alarms_.begin(), alarms_.end(), is_one); };
    if (!changed_.wait_for(lock, std::chrono::seconds(30), found)) return "the watchdog is silent";
    return std::find_if(alarms_.begin(), alarms_.end(), is_one)->second;
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return alarms_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<Watchdog::Cause, std::string>> alarms_;
};

/// One rank's view of a world in which the other ranks say what `gathers` holds, or the same as this one, and
/// whose watchdog only notes what it finds.
class ScriptedWorld final : public World {
 public:
  ScriptedWorld(int rank, int size) : World(make_facts(rank, size)) {}

  /// Answers of the whole world to the gathers to come, oldest first; an empty one means "all as I do".
  std::vector<std::vector<std::string>> gathers;
  /// What a root other than this rank sends.
  std::string from_root;
  int barriers = 0;

  void barrier() override { ++barriers; }
  std::int64_t max(std::int64_t value) override { return value; }
  std::uint64_t any(std::uint64_t flags) override { return flags; }
  void begin_any(std::uint64_t flags) override { begun_ = flags; }
  std::uint64_t end_any() override { return begun_; }
  void sum(std::span<double>) override {}
  std::vector<std::string> all_gather(std::string_view text) override {
    std::vector<std::string> answer;
    if (!gathers.empty()) {
      answer = gathers.front();
      gathers.erase(gathers.begin());
    }
    if (answer.empty()) answer.assign(static_cast<std::size_t>(size()), std::string(text));
    answer[static_cast<std::size_t>(rank())] = text;
    return answer;
  }
  std::vector<std::string> gather_root(std::string_view text) override {
    return is_root() ? all_gather(text) : std::vector<std::string>();
  }
  std::vector<std::string> gather_node(std::string_view text) override { return {std::string(text)}; }
  std::string broadcast(std::string text, int root) override { return root == rank() ? text : from_root; }
  void set_timeout(double seconds, std::function<std::string()>) override { watchdog_.set_timeout(seconds); }
  void abort(int) noexcept override {}
  Watchdog& watchdog() override { return watchdog_; }
  Alarms alarms;

 private:
  std::uint64_t begun_ = 0;

  static WorldFacts make_facts(int rank, int size) {
    WorldFacts facts;
    facts.rank = rank;
    facts.size = size;
    facts.hostname = "node7";
    return facts;
  }
  Watchdog watchdog_{
      60, [this](Watchdog::Cause cause, const char* operation, double) { alarms.add(cause, operation); }};
};

/// NCCL as the test wants it to behave, and a record of what it was asked.
struct FakeNccl {
  /// What an operation was given; what it has not: null, -1.
  struct Message {
    std::string name;
    const void* send = nullptr;
    void* receive = nullptr;
    std::size_t count = 0;
    ncclDataType_t type = ncclInt8;
    int op = -1;
    int peer = -1;  ///< or root
    ncclComm_t comm = nullptr;
    cudaStream_t stream = nullptr;

    bool operator==(const Message&) const = default;
  };
  int version = NCCL_VERSION_CODE;
  ncclResult_t status = ncclSuccess;              ///< what init, finalize and operations return
  std::atomic<ncclResult_t> async = ncclSuccess;  ///< what it has found in the background
  std::function<void()> on_init = [] {};          ///< what happens while a communicator connects
  std::string last_error;
  std::vector<std::string> calls;  ///< all but the polls
  std::vector<Message> messages;
  int color = 0, key = 0;            ///< of the last split
  int part_rank = 0, part_size = 1;  ///< what a part answers
  ncclUniqueId seen_id{};
  int blocking = -1;

  /// Refers to this object.
  NcclLibrary api() {
    NcclLibrary table;
    table.get_version = [this](int* v) { return *v = version, ncclSuccess; };
    table.get_unique_id = [this](ncclUniqueId* id) {
      calls.emplace_back("id");
      for (std::size_t i = 0; i < sizeof id->internal; ++i)
        id->internal[i] = static_cast<char>(i % 7);  // zeros too
      return ncclSuccess;
    };
    table.comm_init_rank_config = [this](ncclComm_t* comm, int, ncclUniqueId id, int, ncclConfig_t* config) {
      *comm = handle();
      seen_id = id;
      blocking = config->blocking;
      on_init();
      return begin("init");
    };
    table.comm_split = [this](ncclComm_t, int c, int k, ncclComm_t* part, ncclConfig_t*) {
      color = c;
      key = k;
      *part = c == NCCL_SPLIT_NOCOLOR ? nullptr : part_handle();
      return begin("split");
    };
    table.comm_user_rank = [this](ncclComm_t, int* rank) { return *rank = part_rank, ncclSuccess; };
    table.comm_count = [this](ncclComm_t, int* count) { return *count = part_size, ncclSuccess; };
    table.comm_get_async_error = [this](ncclComm_t, ncclResult_t* error) {
      return *error = async, ncclSuccess;
    };
    table.all_reduce = [this](const void* send, void* receive, std::size_t count, ncclDataType_t type,
                              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
      return begin({"all_reduce", send, receive, count, type, op, -1, comm, stream});
    };
    table.reduce_scatter = [this](const void* send, void* receive, std::size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
      return begin({"reduce_scatter", send, receive, count, type, op, -1, comm, stream});
    };
    table.all_gather = [this](const void* send, void* receive, std::size_t count, ncclDataType_t type,
                              ncclComm_t comm, cudaStream_t stream) {
      return begin({"all_gather", send, receive, count, type, -1, -1, comm, stream});
    };
    table.broadcast = [this](const void* send, void* receive, std::size_t count, ncclDataType_t type,
                             int root, ncclComm_t comm, cudaStream_t stream) {
      return begin({"broadcast", send, receive, count, type, -1, root, comm, stream});
    };
    table.send = [this](const void* send, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                        cudaStream_t stream) {
      return begin({"send", send, nullptr, count, type, -1, peer, comm, stream});
    };
    table.recv = [this](void* receive, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                        cudaStream_t stream) {
      return begin({"recv", nullptr, receive, count, type, -1, peer, comm, stream});
    };
    table.reduce = [this](const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                          cudaStream_t) { return begin("reduce"); };
    table.group_start = [this] { return calls.emplace_back("group_start"), ncclSuccess; };
    table.group_end = [this] { return begin("group_end"); };
    table.comm_finalize = [this](ncclComm_t) { return begin("finalize"); };
    table.comm_destroy = [this](ncclComm_t) { return calls.emplace_back("destroy"), ncclSuccess; };
    table.comm_abort = [this](ncclComm_t) { return calls.emplace_back("abort"), ncclSuccess; };
    table.get_error_string = [this](ncclResult_t result) { return texts.at(result).c_str(); };
    table.get_last_error = [this](ncclComm_t) { return last_error.c_str(); };
    return table;
  }

  /// NCCL's words for its errors, made up.
  std::map<ncclResult_t, std::string> texts{{ncclSystemError, "the fake's system error"},
                                            {ncclRemoteError, "the fake's remote error"},
                                            {ncclUnhandledCudaError, "the fake's CUDA error"}};

  int count(const std::string& call) const {
    return static_cast<int>(std::count(calls.begin(), calls.end(), call));
  }

  // Never looked into.
  ncclComm_t handle() { return reinterpret_cast<ncclComm_t>(this); }
  ncclComm_t part_handle() { return reinterpret_cast<ncclComm_t>(&part_size); }

 private:
  ncclResult_t begin(const Message& message) {
    messages.push_back(message);
    return begin(message.name.c_str());
  }
  ncclResult_t begin(const char* name) {
    calls.emplace_back(name);
    return status;
  }
};

}  // namespace cxtrain::test
