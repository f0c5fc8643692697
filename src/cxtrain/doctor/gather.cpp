#include "cxtrain/doctor/gather.h"

#include <unistd.h>

#include <algorithm>
#include <functional>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/base/version.h"
#include "cxtrain/cluster/clock_offset.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/cluster/slurm_allocation.h"
#include "cxtrain/device/core_share.h"
#include "cxtrain/doctor/check_support.h"
#include "cxtrain/doctor/probe.h"

namespace cxtrain::doctor {
namespace {

/// What is reduced to measure, and the seconds for it.
constexpr std::size_t kLargeDoubles = std::size_t{1} << 17, kSmallDoubles = 8;  // 1 MiB and 64 bytes
constexpr double kLargeBudget = 0.2, kSmallBudget = 0.05;

/// A probe that fails leaves its facts unknown: the ranks meet in collectives afterwards.
void try_probe(const char* what, const std::function<void()>& probe) {
  try {
    probe();
  } catch (const std::exception& error) {
    log_detail(std::string("doctor: ") + what + ": " + message_of(error));
  }
}

const Node* hardware_of(const DoctorInputs& own, int node) {
  return own.hardware.nodes.empty() ? nullptr : &own.hardware.node(node);
}

/// CUDA's word where it was asked, else all GPUs where nothing hides any.
std::optional<std::vector<std::string>> visible_of(const RankFacts& rank, const Node& node) {
  if (node.visible) return node.visible;
  if (variable(rank, "CUDA_VISIBLE_DEVICES") && !node.gpus.empty()) return std::nullopt;
  return transformed(node.gpus, &Gpu::uuid);
}

GpuFacts gpu_facts(const Gpu& gpu) {
  GpuFacts facts;
  facts.index = gpu.index;
  facts.uuid = gpu.uuid;
  facts.name = gpu.name;
  facts.memory_total_mib = gpu.memory_total_mib;
  facts.memory_used_mib = gpu.memory_used_mib;
  facts.processes = gpu.processes;
  facts.utilization = gpu.utilization;
  facts.compute_mode = gpu.compute_mode;
  facts.mig = word_of(gpu.mig);
  return facts;
}

RankFacts own_rank_facts(const World& world, const DoctorInputs& own) {
  RankFacts facts = own.rank;
  const WorldFacts& place = world.facts();
  facts.rank = place.rank;
  facts.node = place.node;
  facts.local_rank = place.local_rank;
  facts.host = place.hostname;
  facts.pid = getpid();
  const auto& ranks = own.plan.ranks;
  const auto planned = std::ranges::find(ranks, place.rank, &RankPlan::rank);
  if (planned != ranks.end()) facts.planned_gpus = planned->uuids;
  try_probe("cores", [&] { facts.cores = format_ranges(cores_of_mask()); });
  try_probe("environment", [&] { facts.environment = relevant_environment(); });
  try_probe("limits", [&] { probe_limits(facts); });
  try_probe("MPI", [&] { probe_mpi(facts); });
  try_probe("program", [&] { probe_program(facts); });
  if (const Node* node = hardware_of(own, place.node)) facts.visible_gpus = visible_of(facts, *node);
  return facts;
}

NodeFacts own_node_facts(const World& world, const DoctorInputs& own) {
  NodeFacts facts;
  facts.node = world.facts().node;
  facts.host = world.facts().hostname;
  try_probe("machine", [&] { probe_machine(facts); });
  try_probe("network", [&] { probe_network(facts); });
  try_probe("output", [&] { facts.output = probe_output(own.output_folder); });
  try_probe("data", [&] {
    if (!own.data_path.empty()) facts.data = probe_data(own.data_path);
  });
  if (const Node* node = hardware_of(own, facts.node)) {
    facts.cuda_version = node->cuda_version;
    facts.cuda_failure = node->cuda_failure;
    facts.gpus = transformed(node->gpus, gpu_facts);
    try_probe("GPUs", [&] { probe_gpus(facts, own.nvml); });
  }
  return facts;
}

JobFacts own_job_facts(const World& world, const DoctorInputs& own) {
  JobFacts job = own.job;
  job.version = CXTRAIN_VERSION;
  job.time = date_text(seconds_since_1970(), "%Y-%m-%dT%H:%M:%SZ", /*utc=*/true);
  job.launcher = word_of(world.facts().launched_by);
  job.world_size = world.size();
  job.nodes = world.facts().num_nodes;
  job.planned_world_size = own.plan.world_size;
  job.planned_nodes = own.plan.num_nodes;
  job.accelerator = own.plan.accelerator;
  job.strategy = own.plan.strategy;
  job.devices = joined(own.plan.devices, ",", [](int device) { return std::to_string(device); });
  job.allocation = slurm_allocation(slurm_environment());
  if (own.hardware.cuda_runtime > 0) job.cuda_runtime = cuda_version_text(own.hardware.cuda_runtime);
  return job;
}

/// What ranks find out together.
void measure_together(World& world, const DoctorInputs& own, RankFacts& rank, NodeFacts& node,
                      JobFacts& job) {
  const std::optional<bool> seen = sees_file_of_root(world, own.output_folder);
  if (node.output) node.output->sees_root = seen;
  rank.maps_memory_of_others = maps_memory_of_next(world);
  if (world.size() < 2) return;
  const ClockOffset clock = clock_offset(world);
  node.clock_offset = clock.seconds;
  node.clock_error = clock.error;
  job.reduce_bytes = static_cast<std::int64_t>(kLargeDoubles * sizeof(double));
  job.reduce_seconds = time_reduction(world, kLargeDoubles, kLargeBudget);
  job.small_reduce_seconds = time_reduction(world, kSmallDoubles, kSmallBudget);
}

}  // namespace

Recording gather(World& world, const DoctorInputs& own) {
  const bool first_of_node = world.facts().local_rank == 0;
  Recording mine;
  mine.job = own_job_facts(world, own);
  NodeFacts node = first_of_node ? own_node_facts(world, own) : NodeFacts();
  RankFacts rank = own_rank_facts(world, own);
  measure_together(world, own, rank, node, mine.job);
  mine.ranks.push_back(std::move(rank));
  if (first_of_node) mine.nodes.push_back(std::move(node));

  Recording all;
  for (Recording& one : gather_values_on_root(world, mine)) {
    if (all.ranks.empty()) all.job = std::move(one.job);
    for (NodeFacts& facts : one.nodes) all.nodes.push_back(std::move(facts));
    for (RankFacts& facts : one.ranks) all.ranks.push_back(std::move(facts));
  }
  std::ranges::sort(all.nodes, {}, &NodeFacts::node);
  return all;
}

}  // namespace cxtrain::doctor
