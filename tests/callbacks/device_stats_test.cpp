#include "cxtrain/callbacks/device_stats.h"

#include <map>
#include "support/catch.h"

using namespace cxtrain;
using Metrics = std::map<std::string, double>;

namespace {

/// One rank of a run of several, whose others are made up: `others` is what they add to each exchange.
class FakeRun final : public Run {
 public:
  FakeRun(int rank, int world) : rank_(rank), world_(world) {}

  int rank() const override { return rank_; }
  int local_rank() const override { return rank_; }
  int world_size() const override { return world_; }
  torch::nn::Module& module() const override { throw std::logic_error("no model here"); }
  const std::string& log_dir() const override { return log_dir_; }
  std::int64_t current_epoch() const override { return 0; }
  std::int64_t global_step() const override { return step; }
  std::int64_t batch_idx() const override { return 0; }
  std::int64_t num_batches() const override { return 1; }
  std::int64_t max_epochs() const override { return 1; }
  std::int64_t max_steps() const override { return -1; }
  bool validates_at_epoch_end_only() const override { return true; }
  std::int64_t samples_per_batch() const override { return 1; }
  const Plan& plan() const override { return decided; }
  std::int64_t log_every_n_steps() const override { return every; }
  double elapsed_seconds() const override { return 0; }
  bool sanity_checking() const override { return false; }
  const at::Tensor& step_output() const override { return output_; }
  std::optional<double> metric(std::string_view) const override { return std::nullopt; }
  std::optional<double> metric_of_all_ranks(std::string_view) override { return std::nullopt; }
  std::vector<std::string> metric_names() const override { return {}; }
  std::vector<std::pair<std::string, double>> progress_bar_metrics() const override { return {}; }
  std::vector<std::pair<std::string, double>> progress_bar_metrics_so_far() override { return {}; }
  std::vector<LearningRate> learning_rates() const override { return {}; }
  void log(std::string_view name, double value, const LogOptions&) override {
    logged[std::string(name)] = value;
  }
  void log(std::string_view name, const at::Tensor& value, const LogOptions&) override {
    logged[std::string(name)] = value.item<double>();
  }
  void sum_over_ranks(std::span<double> values) override {
    ++exchanges;
    sent.assign(values.begin(), values.end());
    for (std::size_t i = 0; i < others.size() && i < values.size(); ++i) values[i] += others[i];
  }
  void request_stop(std::string) override {}
  void request_checkpoint() override {}
  void request_requeue(std::string) override {}
  void request_save() override {}
  bool take_save_request() override { return false; }
  bool reserve_path(const std::string&) override { return true; }
  void save_checkpoint(const StateDict&, SaveRequest) override {}
  std::string of_rank_zero(std::string text) override { return text; }
  std::vector<std::string> of_all_ranks(const std::string& text) override { return {text}; }
  std::vector<std::pair<std::string, std::string>> parameter_checksums() override { return {}; }
  Filesystem& files() override { throw std::logic_error("no files here"); }
  void checkpoint_saved(double) override {}
  std::int64_t checkpoints_saved() const override { return 0; }
  std::optional<double> longest_save_seconds() const override { return std::nullopt; }
  bool ends_with_checkpoint() const override { return false; }

  Plan decided;
  std::int64_t step = 0, every = 5;
  int exchanges = 0;
  std::vector<double> sent, others;
  Metrics logged;

 private:
  int rank_, world_;
  std::string log_dir_;
  at::Tensor output_;
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

/// What the ranks of a plan log, as rank 0 sees it: every rank samples its own GPUs, and the sums are
/// exchanged.
struct Outcome {
  Metrics logged;
  std::vector<std::vector<int>> asked;
};

Outcome run_ranks(const Plan& plan, DeviceStats::Wanted wanted,
                  const std::vector<Plan>& plans_of_ranks = {}) {
  Outcome outcome;
  std::vector<double> sum;
  for (int rank = plan.world_size - 1; rank >= 0; --rank) {
    const auto index = static_cast<std::size_t>(rank);
    FakeRun run(rank, plan.world_size);
    run.step = 10;
    run.others = sum;
    std::vector<int> asked;
    run.decided = plans_of_ranks.empty() ? plan : plans_of_ranks[index];
    DeviceStats stats(wanted, {std::make_unique<FakeGpus>(asked), [] { return CpuSample{}; }});
    stats.on_train_batch_end(run, {}, {}, 0);
    sum.resize(run.sent.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += run.sent[i];
    outcome.asked.insert(outcome.asked.begin(), asked);
    outcome.logged = run.logged;
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
  const auto logged = [](int world, bool device_stats, const std::vector<double>& others) {
    FakeRun run(0, world);
    run.step = 5;
    run.others = others;
    std::vector<int> asked;
    DeviceStats stats({device_stats, GpuMemoryLog::all}, {std::make_unique<FakeGpus>(asked), [] {
                                                            return CpuSample{150, 2, 1};
                                                          }});
    stats.on_train_batch_end(run, {}, {}, 0);
    CHECK(asked.empty());
    return run.logged;
  };
  const std::string prefix = "DeviceStatsMonitor.on_train_batch_end/";
  CHECK(logged(1, true, {}) == Metrics{{prefix + "cpu_percent", 150},
                                       {prefix + "cpu_vm_percent", 2},
                                       {prefix + "cpu_swap_percent", 1}});
  const Metrics two = logged(2, true, {0, 0, 0, 90, 3, 0});
  CHECK(two.size() == 6);
  CHECK(two.at(prefix + "rank: 0/cpu_percent") == 150);
  CHECK(two.at(prefix + "rank: 1/cpu_percent") == 90);
  CHECK(two.at(prefix + "rank: 1/cpu_vm_percent") == 3);
  CHECK(logged(1, false, {}).empty());  // log_gpu_memory has nothing to log here
}

TEST_CASE("nothing is sampled or exchanged between logging steps", "[callbacks]") {
  FakeRun run(0, 1);
  std::vector<int> asked;
  run.decided = plan_of({{1}});
  DeviceStats stats({true, GpuMemoryLog::all},
                    {std::make_unique<FakeGpus>(asked), [] { return CpuSample{}; }});
  for (run.step = 0; run.step < 5; ++run.step) stats.on_train_batch_end(run, {}, {}, 0);
  CHECK(run.exchanges == 0);
  CHECK(asked.empty());
  stats.on_train_batch_end(run, {}, {}, 0);
  stats.on_train_batch_end(run, {}, {}, 1);  // the next micro-batch: no step was done in between
  CHECK(run.exchanges == 1);
  run.every = 0;
  DeviceStats never({true}, {std::make_unique<FakeGpus>(asked), [] { return CpuSample{}; }});
  never.on_train_batch_end(run, {}, {}, 0);
  CHECK(run.exchanges == 1);
}
