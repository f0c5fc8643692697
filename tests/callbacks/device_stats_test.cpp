#include "cxtrain/callbacks/device_stats.h"

#include <algorithm>
#include <map>
#include <stdexcept>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/callbacks/run_of_values.h"
#include "support/catch.h"

using namespace cxtrain;
using Metrics = std::map<std::string, double>;

namespace {

/// One of several ranks. `others`: what the last ranks have sent; ranks before send what this one sends.
class FakeRank final : public World {
 public:
  FakeRank(int rank, int size) : World(facts_of(rank, size)) {}

  std::vector<std::string> all_gather(std::string_view text) override {
    ++exchanges;
    sent = text;
    std::vector<std::string> all(static_cast<std::size_t>(size()), sent);
    std::ranges::copy(others, all.end() - std::ssize(others));
    return all;
  }
  void sum(std::span<double>) override {}
  void barrier() override {}
  std::int64_t max(std::int64_t value) override { return value; }
  std::uint64_t any(std::uint64_t flags) override { return flags; }
  void begin_any(std::uint64_t) override {}
  std::uint64_t end_any() override { return 0; }
  std::vector<std::string> gather_root(std::string_view text) override { return {std::string(text)}; }
  std::vector<std::string> gather_node(std::string_view text) override { return {std::string(text)}; }
  std::string broadcast(std::string text, int) override { return text; }
  void set_timeout(double, std::function<std::string()>) override {}
  void abort(int) noexcept override {}
  Watchdog& watchdog() override { throw std::logic_error("no watchdog here"); }

  int exchanges = 0;
  std::string sent;
  std::vector<std::string> others;

 private:
  static WorldFacts facts_of(int rank, int size) {
    WorldFacts facts;
    facts.rank = facts.local_rank = rank;
    facts.size = size;
    return facts;
  }
};

/// A run on such a rank, after its tenth step.
struct FakeRun {
  FakeRun(int rank, int size) : world(rank, size), values(world) {
    values.state.global_step = 10;
    values.progress.log_every_n_steps = 5;
  }
  void batch_end(DeviceStats& stats) { stats.on_train_batch_end(values.run, {}, {}, 0); }
  Metrics logged() const { return values.metrics.all(); }

  FakeRank world;
  RunOfValues values;
};

/// GPU i has 10 i % load, 1000 i MiB in use, 500 free and 30 + i degrees; GPU 9 tells its memory only.
class FakeGpus final : public GpuMonitor {
 public:
  explicit FakeGpus(std::vector<int>& asked) : asked_(asked) {}
  GpuSample sample(int gpu) override {
    asked_.push_back(gpu);
    GpuSample sample;
    sample.memory_used_mib = 1000.0 * gpu;
    if (gpu == 9) return sample;
    sample.utilization_percent = 10.0 * gpu;
    sample.memory_free_mib = 500;
    sample.temperature_celsius = 30.0 + gpu;
    return sample;
  }

 private:
  std::vector<int>& asked_;
};

/// A rank for each of these lists of GPUs, on one node unless `nodes` says otherwise.
Plan plan_of(const std::vector<std::vector<int>>& gpus, const std::vector<int>& nodes = {}) {
  Plan plan;
  plan.accelerator = "gpu";
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    RankPlan rank;
    rank.rank = static_cast<int>(i);
    rank.node = nodes.empty() ? 0 : nodes[i];
    rank.gpus = gpus[i];
    for (const int gpu : gpus[i])
      rank.uuids.push_back("GPU-" + std::to_string(rank.node) + "-" + std::to_string(gpu));
    plan.num_nodes = std::max(plan.num_nodes, rank.node + 1);
    plan.ranks.push_back(rank);
  }
  plan.world_size = static_cast<int>(gpus.size());
  return plan;
}

constexpr DeviceStats::Wanted kAll{.gpu_memory = GpuMemoryLog::all};

/// What the ranks of a plan log, as rank 0 sees it: every rank samples its own GPUs, and ranks exchange the
/// samples.
struct Outcome {
  Metrics logged;
  std::vector<std::vector<int>> asked;
};

Outcome run_ranks(const Plan& plan, DeviceStats::Wanted wanted,
                  const std::vector<Plan>& plans_of_ranks = {}) {
  Outcome outcome;
  std::vector<std::string> sent;  // by this rank and the ranks after it
  for (int rank = plan.world_size - 1; rank >= 0; --rank) {
    const auto index = static_cast<std::size_t>(rank);
    FakeRun run(rank, plan.world_size);
    run.world.others = sent;
    std::vector<int> asked;
    run.values.plan = plans_of_ranks.empty() ? plan : plans_of_ranks[index];
    DeviceStats stats(wanted, {std::make_unique<FakeGpus>(asked), [] { return CpuSample{}; }});
    run.batch_end(stats);
    sent.insert(sent.begin(), run.world.sent);
    outcome.asked.insert(outcome.asked.begin(), asked);
    outcome.logged = run.logged();
  }
  return outcome;
}

}  // namespace

TEST_CASE("log_gpu_memory: the memory of every rank's GPUs under Lightning 1.5's names", "[callbacks]") {
  const Outcome all = run_ranks(plan_of({{3}, {1}}), kAll);
  CHECK(all.logged == Metrics{{"gpu_id: 1/memory.used (MB)", 1000}, {"gpu_id: 3/memory.used (MB)", 3000}});
  CHECK(all.asked == std::vector<std::vector<int>>{{3}, {1}});
  CHECK(run_ranks(plan_of({{3}, {1}, {2}}), {.gpu_memory = GpuMemoryLog::min_max}).logged ==
        Metrics{{"min_gpu_mem", 1000}, {"max_gpu_mem", 3000}});
}

TEST_CASE("device_stats: load, memory and temperature under the monitors' names", "[callbacks]") {
  const std::string prefix = "DeviceStatsMonitor.on_train_batch_end/gpu_id: ";
  CHECK(run_ranks(plan_of({{2}, {9}}), {.device_stats = true}).logged ==
        Metrics{{prefix + "2/utilization.gpu (%)", 20},
                {prefix + "2/memory.used (MB)", 2000},
                {prefix + "2/memory.free (MB)", 500},
                {prefix + "2/temperature.gpu (°C)", 32},
                {prefix + "9/memory.used (MB)", 9000}});
}

TEST_CASE("a rank with several GPUs, shared GPUs, and GPUs of the same number", "[callbacks]") {
  CHECK(run_ranks(plan_of({{0, 1, 2}}), kAll).logged.size() == 3);
  CHECK(run_ranks(plan_of({{4}, {4}, {5}}), kAll).logged ==
        Metrics{{"gpu_id: 4/memory.used (MB)", 4000}, {"gpu_id: 5/memory.used (MB)", 5000}});
  CHECK(run_ranks(plan_of({{1}, {1}}, {0, 1}), kAll).logged ==
        Metrics{{"node: 0/gpu_id: 1/memory.used (MB)", 1000}, {"node: 1/gpu_id: 1/memory.used (MB)", 1000}});
  // Slurm shows each task its own GPU as number 0, so each rank's plan has its own GPU for all.
  Plan first = plan_of({{0}, {0}}), second = first;
  for (RankPlan& rank : second.ranks) rank.uuids = {"GPU-another"};
  CHECK(run_ranks(first, kAll, {first, second}).logged ==
        Metrics{{"gpu_id: 0/memory.used (MB)", 0}, {"rank: 1/gpu_id: 0/memory.used (MB)", 0}});
}

TEST_CASE("on the CPU the process's load and memory", "[callbacks]") {
  const auto logged = [](int world, bool device_stats, const std::vector<std::string>& others) {
    FakeRun run(0, world);
    run.world.others = others;
    std::vector<int> asked;
    DeviceStats stats({device_stats, GpuMemoryLog::all}, {std::make_unique<FakeGpus>(asked), [] {
                                                            return CpuSample{150, 2, 1};
                                                          }});
    run.batch_end(stats);
    CHECK(asked.empty());
    return run.logged();
  };
  const std::string prefix = "DeviceStatsMonitor.on_train_batch_end/";
  CHECK(logged(1, true, {}) == Metrics{{prefix + "cpu_percent", 150},
                                       {prefix + "cpu_vm_percent", 2},
                                       {prefix + "cpu_swap_percent", 1}});
  const Metrics two = logged(2, true, {to_message(CpuSample{90, 3, 0})});
  CHECK(two.size() == 6);
  CHECK(two.at(prefix + "rank: 0/cpu_percent") == 150);
  CHECK(two.at(prefix + "rank: 1/cpu_percent") == 90);
  CHECK(two.at(prefix + "rank: 1/cpu_vm_percent") == 3);
  CHECK(logged(1, false, {}).empty());  // log_gpu_memory has nothing to log here
}

TEST_CASE("nothing is sampled or exchanged between logging steps", "[callbacks]") {
  FakeRun run(0, 1);
  std::vector<int> asked;
  run.values.plan = plan_of({{1}});
  DeviceStats stats({true, GpuMemoryLog::all},
                    {std::make_unique<FakeGpus>(asked), [] { return CpuSample{}; }});
  std::int64_t& step = run.values.state.global_step;
  for (step = 1; step < 5; ++step) run.batch_end(stats);
  CHECK(run.world.exchanges == 0);
  CHECK(asked.empty());
  run.batch_end(stats);
  run.values.progress.stepped = false;  // after the next micro-batch
  run.batch_end(stats);
  run.values.progress.stepped = true;
  CHECK(run.world.exchanges == 1);
  run.values.progress.log_every_n_steps = 0;
  DeviceStats never({true}, {std::make_unique<FakeGpus>(asked), [] { return CpuSample{}; }});
  run.batch_end(never);
  CHECK(run.world.exchanges == 1);
}
