#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/comm/nccl_api.h"

namespace cxtrain::test {

/// Time that goes on by `tick` seconds whenever somebody looks at it.
class TickingClock final : public Clock {
 public:
  explicit TickingClock(double tick) : tick_(tick) {}
  double now() const override { return now_ += tick_; }

 private:
  double tick_;
  mutable double now_ = 0;
};

/// One rank's view of a world in which the other ranks say what `others` holds, or the same as this one.
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
  std::string broadcast(std::string text, int root) override { return root == rank() ? text : from_root; }
  void set_timeout(double, std::function<std::string()>) override {}
  void abort(int) noexcept override {}

 private:
  static WorldFacts make_facts(int rank, int size) {
    WorldFacts facts;
    facts.rank = rank;
    facts.size = size;
    facts.hostname = "node7";
    return facts;
  }
};

/// NCCL as the test wants it to behave, and a record of what it was asked.
struct FakeNccl {
  int version = NCCL_VERSION_CODE;
  ncclResult_t starts = ncclInProgress;  ///< what init, finalize and collectives return at once
  int polls = 3;                         ///< questions that are answered "in progress"; -1: all
  ncclResult_t outcome = ncclSuccess;    ///< the answer after them
  std::string last_error;
  std::vector<std::string> calls;  ///< all but the polls
  int asked = 0;
  ncclUniqueId seen_id{};
  int blocking = -1;

  /// Refers to this object.
  NcclApi api() {
    NcclApi table;
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
      return begin("init");
    };
    table.comm_get_async_error = [this](ncclComm_t, ncclResult_t* error) {
      ++asked;
      const bool busy = polls < 0 || remaining_ > 0;
      if (remaining_ > 0) --remaining_;
      *error = busy ? ncclInProgress : outcome;
      return ncclSuccess;
    };
    table.all_reduce = [this](const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                              cudaStream_t) { return begin("all_reduce"); };
    table.broadcast = [this](const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
      return begin("broadcast");
    };
    table.reduce = [this](const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                          cudaStream_t) { return begin("reduce"); };
    table.group_start = [this] { return calls.emplace_back("group_start"), ncclSuccess; };
    table.group_end = [this] { return begin("group_end"); };
    table.comm_finalize = [this](ncclComm_t) { return begin("finalize"); };
    table.comm_destroy = [this](ncclComm_t) { return calls.emplace_back("destroy"), ncclSuccess; };
    table.comm_abort = [this](ncclComm_t) { return calls.emplace_back("abort"), ncclSuccess; };
    table.get_error_string = [](ncclResult_t status) { return ncclGetErrorString(status); };
    table.get_last_error = [this](ncclComm_t) { return last_error.c_str(); };
    return table;
  }

  int count(const std::string& call) const {
    return static_cast<int>(std::count(calls.begin(), calls.end(), call));
  }

 private:
  /// Never looked into.
  ncclComm_t handle() { return reinterpret_cast<ncclComm_t>(this); }
  ncclResult_t begin(const char* name) {
    calls.emplace_back(name);
    remaining_ = std::max(polls, 0);
    return starts;
  }
  int remaining_ = 0;
};

}  // namespace cxtrain::test
