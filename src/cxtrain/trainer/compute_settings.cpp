#include "cxtrain/trainer/compute_settings.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <set>
#include <vector>

#include "cxtrain/base/log.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/device/core_share.h"
#include "cxtrain/device/hardware.h"

namespace cxtrain {
namespace {

bool processor_has_bf16() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return true;  // not known
#endif
}

/// The ranks that share the cores of this one's machine.
struct OnMachine {
  std::vector<std::vector<int>> masks;
  std::size_t own = 0;  ///< this rank's place among them
  std::size_t nodes = 1;
};

/// Where each node is a machine of its own, ranks tell only those of their node; containers and emulated
/// nodes may share one, and then everybody tells everybody.
OnMachine ranks_on_machine(World& world) {
  const WorldFacts& facts = world.facts();
  const std::vector<int> mask = cores_of_mask();
  const Machines machines = gather_machines(world);
  OnMachine found;
  if (!machines.shared) {
    found.masks = gather_values_on_node(world, mask);
    found.own = static_cast<std::size_t>(facts.local_rank);
    return found;
  }
  const auto machine_of = [&](int node) { return machines.of_nodes[static_cast<std::size_t>(node)]; };
  const std::string machine = machine_of(facts.node);
  const std::vector<std::vector<int>> everyone = gather_values(world, mask);
  for (std::size_t rank = 0; rank < everyone.size(); ++rank) {
    if (machine_of(facts.rank_nodes[rank]) != machine) continue;
    if (static_cast<int>(rank) == world.rank()) found.own = found.masks.size();
    found.masks.push_back(everyone[rank]);
  }
  found.nodes = static_cast<std::size_t>(std::ranges::count(machines.of_nodes, machine));
  return found;
}

/// The launcher takes each for a machine of its own, and has ranks wait busily for every message.
void warn_of_shared_machine(const OnMachine& machine) {
  if (machine.nodes < 2) return;
  std::set<int> cores;
  for (const std::vector<int>& mask : machine.masks) cores.insert(mask.begin(), mask.end());
  const bool crowded =
      machine.masks.size() > cores.size() && std::getenv("OMPI_MCA_mpi_yield_when_idle") == nullptr;
  log_warning(std::to_string(machine.nodes) + " of the nodes are one machine, whose " +
              std::to_string(cores.size()) + " cores are divided among the " +
              std::to_string(machine.masks.size()) + " ranks there" +
              (crowded ? "; they wait for each other without giving up their cores, unless "
                         "OMPI_MCA_mpi_yield_when_idle=1 is in the environment"
                       : ""));
}

/// Rank 0 says it once, of the first rank that has too few.
void warn_of_few_cores(World& world, const std::string& own) {
  constexpr std::int64_t kNobody = std::numeric_limits<int>::max();
  const std::int64_t first = -world.max(own.empty() ? -kNobody : -std::int64_t{world.rank()});
  if (first == kNobody) return;
  const std::string few = world.broadcast(own, static_cast<int>(first));
  if (world.is_root()) log_warning(few);
}

}  // namespace

std::string slow_precision_warning(std::string_view precision, bool processor_has_bf16) {
  if (processor_has_bf16 || !precision.starts_with("bf16")) return {};
  return "trainer.precision: this processor has no instructions for bfloat16, which " +
         std::string(precision) + " makes it emulate: several times slower than --precision 32-true";
}

std::string tf32_hint(const Plan& plan, bool has_tf32) {
  if (!has_tf32 || plan.precision != "32-true" || plan.float32_matmul_precision) return {};
  return "this GPU multiplies float32 several times faster as TF32, with 10 bits of mantissa: "
         "--float32_matmul_precision high (highest keeps it exact, without this hint)";
}

void apply_compute_settings(const Plan& plan, const WorldFacts& facts, c10::Device device) {
  at::Context& context = at::globalContext();
  context.setBenchmarkCuDNN(plan.benchmark);
  context.setDeterministicCuDNN(plan.deterministic);
  context.setDeterministicAlgorithms(plan.deterministic, plan.deterministic_warn_only);
  if (plan.float32_matmul_precision) {
    context.setFloat32MatmulPrecision(std::string(word_of(*plan.float32_matmul_precision)));
  }
  // cuBLAS is deterministic only with a fixed workspace, and reads this when CUDA starts.
  if (plan.deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  if (!device.is_cpu()) c10::impl::getDeviceGuardImpl(device.type())->setDevice(device);
  if (device.is_cpu() && facts.rank == 0) {
    const std::string slow = slow_precision_warning(plan.precision, processor_has_bf16());
    if (!slow.empty()) log_warning(slow);
  }
}

void set_thread_counts(World& world, int data_workers, bool on_gpu) {
  const OnMachine machine = ranks_on_machine(world);
  const int cores = core_shares(machine.masks)[machine.own];
  if (std::getenv("OMP_NUM_THREADS") == nullptr) at::set_num_threads(cores);
  if (world.is_root()) warn_of_shared_machine(machine);
  const bool bound = static_cast<int>(machine.masks[machine.own].size()) < online_cores();
  warn_of_few_cores(world, too_few_cores(world.rank(), cores, bound, data_workers, on_gpu));
}

}  // namespace cxtrain
