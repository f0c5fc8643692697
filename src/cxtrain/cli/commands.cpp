#include "cxtrain/cli/commands.h"

#include <mpi.h>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/process.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/version.h"
#include "cxtrain/cli/slurm_script.h"
#include "cxtrain/cli/slurm_submission.h"
#include "cxtrain/config/devices.h"
#include "cxtrain/config/plan_drawing.h"
#include "cxtrain/data/image_file.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/device/resources.h"
#include "cxtrain/plugin/accelerator_library.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/precision/policy.h"
#include "cxtrain/scaling/study_files.h"
#include "cxtrain/strategy/model_outline.h"
#include "cxtrain/trainer/module.h"
#include "cxtrain/trainer/optimization.h"

namespace cxtrain {
namespace {

template <class Number>
std::string known(const std::optional<Number>& number) {
  return number ? std::to_string(*number) : "?";
}

void print_node(const Hardware& hardware, std::ostream& out) {
  const Node& node = hardware.node(0);
  out << "host " << node.hostname << ", " << counted(node.cores, "core") << '\n';
  if (node.gpus.empty()) out << "no GPU\n";
  for (const Gpu& gpu : node.gpus) {
    out << "GPU " << gpu.index << ": " << gpu.name << ", " << known(gpu.memory_used_mib) << " of "
        << gpu.memory_total_mib << " MiB used, " << known(gpu.utilization) << " % busy, " << gpu.compute_mode
        << " mode, " << gpu.uuid << '\n';
  }
  if (const auto variable = hardware.env.find("CUDA_VISIBLE_DEVICES"); variable != hardware.env.end()) {
    out << "CUDA_VISIBLE_DEVICES=" << variable->second << " shows " << visible_gpus(hardware, 0).gpus.size()
        << '\n';
  }
}

Hardware find_hardware(const Options& options) {
  if (options.hardware_file.empty()) return probe_hardware();
  constexpr std::size_t kMaxHardwareBytes = std::size_t{64} << 20;  // some 100,000 nodes of 8 GPUs
  Hardware hardware =
      parse_hardware(read_small_file(options.hardware_file, kMaxHardwareBytes), options.hardware_file);
  // The file's environment replaces ours for the names that it has, and only for these.
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr) hardware.env.emplace("CUDA_VISIBLE_DEVICES", visible);
  return hardware;
}

/// The world to imagine.
WorldFacts imagine(const Options& options, const Hardware& hardware, std::vector<Problem>& problems) {
  WorldFacts facts;
  facts.hostname = hardware.node(0).hostname;
  if (!options.plan_ranks) {
    if (options.plan_ranks_per_node)
      problems.push_back({"ranks_per_node", "means nothing without ranks", "add --ranks N",
                          MessageCode::conflicting_options});
    return facts;
  }
  const int ranks = *options.plan_ranks;
  const int nodes = static_cast<int>(std::min<std::size_t>(hardware.nodes.size(), kMaxRanks));
  const auto possible = [](int number) { return number >= 1 && number <= kMaxRanks; };
  if (!possible(ranks) || !possible(options.plan_ranks_per_node.value_or(1)))
    return facts;  // check_options refuses it
  const int per_node = options.plan_ranks_per_node.value_or((ranks + nodes - 1) / nodes);
  facts.launched_by = LaunchedBy::mpirun;
  facts.size = ranks;
  facts.max_local_size = facts.local_size = std::min(per_node, ranks);
  facts.num_nodes = (ranks + per_node - 1) / per_node;
  return facts;
}

std::optional<CostEstimate> estimate_of(const Plan& plan, const Options& options,
                                        std::vector<Problem>& errors) {
  if (options.plan_study.empty()) {
    return CostEstimate{
        .refusal =
            "the time of a step is not known; measure it by `cxtrain_mpi scaling`, and name its folder by "
            "--from"};
  }
  try {
    return estimate_cost(plan, options.trainer.max_steps, read_result(real_filesystem(), options.plan_study));
  } catch (const ConfigError& error) {
    errors.insert(errors.end(), error.problems().begin(), error.problems().end());
  } catch (const FileError& error) {
    errors.push_back({"from", error.what(), "name the folder of a scaling study", message_code_of(error)});
  }
  return std::nullopt;
}

std::string json_of_plan(const ResolvedPlan& resolved) {
  if (!resolved.estimate) return to_json(resolved.plan);
  auto json = nlohmann::ordered_json::parse(to_json(resolved.plan));
  json["estimate"] = json_of(*resolved.estimate);
  return text_of_json(json);
}

/// The memory that a rank can have: its GPU's, or its part of this machine's. Of another machine's CPUs the
/// memory is not known.
std::int64_t memory_for(const RankPlan& rank, int ranks_on_node, const Hardware& hardware,
                        const Options& options) {
  constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();
  if (!rank.gpu) return options.hardware_file.empty() ? total_memory_bytes() / ranks_on_node : kUnknown;
  constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;
  for (const Gpu& gpu : hardware.node(rank.node).gpus) {
    if (gpu.index == rank.gpu && gpu.memory_total_mib > 0) return gpu.memory_total_mib * kMebibyte;
  }
  return kUnknown;
}

void check_memory(Plan& plan, const Hardware& hardware, const Options& options) {
  const std::vector<int> on_nodes = ranks_on_nodes(plan);
  for (std::size_t i = 0; i < plan.memory.size(); ++i) {
    const std::int64_t have = memory_for(plan.ranks[i], on_nodes[i], hardware, options);
    const std::int64_t needed = plan.memory[i].total();
    if (needed <= have) continue;
    plan.errors.push_back(
        {"trainer.strategy",
         "parameters, gradients and the optimizer's state take " + readable_bytes(needed) + " on rank " +
             std::to_string(i) + ", which has " + readable_bytes(have),
         "divide them among more ranks with --strategy zero, or the layers with --strategy pipeline "
         "(docs/larger_models.md)",
         MessageCode::out_of_memory});
    return;
  }
}

}  // namespace

std::string version_line() { return CXTRAIN_FINGERPRINT; }

std::vector<std::string> version_lines() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string mpi(text, static_cast<std::size_t>(length));
  mpi = mpi.substr(0, mpi.find_first_of(",\n"));
  const std::string images = joined(image_formats());
  std::vector<std::string> lines{"built with " CXTRAIN_FINGERPRINT, "MPI: " + mpi,
                                 "plugin ABI: " + std::to_string(CXTRAIN_PLUGIN_ABI),
                                 "image files: " + (images.empty() ? "none are read" : images)};
  if (!has_cuda_library()) {
    lines.emplace_back("CUDA: this build has no GPU support");
    return lines;
  }
  try {
    const AcceleratorVersions found = open_accelerator().versions();
    lines.push_back("CUDA: " + found.cuda);
    lines.push_back("NCCL: " + found.nccl + " (headers " + found.nccl_headers + ")");
  } catch (const Error& error) {
    lines.push_back(std::string("CUDA: ") + error.what());
  }
  return lines;
}

int run_info(const Options& options, std::span<const std::string> extra_lines, const HelpSource& components,
             std::ostream& out) {
  const Hardware hardware = probe_hardware();
  if (options.show_hardware) {
    if (options.json) {
      out << to_json(hardware) << '\n';
    } else {
      print_node(hardware, out);
    }
  } else if (options.json) {
    nlohmann::ordered_json json{{"version", CXTRAIN_VERSION},
                                {"hardware", nlohmann::ordered_json::parse(to_json(hardware))}};
    json["about"] = nlohmann::ordered_json::array();
    for (const std::string& line : extra_lines) json["about"].push_back(line);
    json["components"] = nlohmann::ordered_json::parse(to_json(components.sections));
    out << text_of_json(json) << '\n';
  } else {
    out << "cxtrain " << CXTRAIN_VERSION << '\n';
    for (const std::string& line : extra_lines) out << line << '\n';
    print_node(hardware, out);
    out << components_text(components);
  }
  out.flush();
  return static_cast<int>(ExitCode::done);
}

ResolvedPlan make_plan(const Options& options, const KnownStrategies& strategies) {
  ResolvedPlan resolved;
  std::vector<Problem> problems;
  try {
    resolved.hardware = find_hardware(options);
    const WorldFacts facts = imagine(options, resolved.hardware, problems);
    resolved.plan = resolve(options, resolved.hardware, facts, strategies);
  } catch (const DataError& error) {
    problems.push_back({"hardware", error.what(), "", message_code_of(error)});
  }
  std::vector<Problem>& errors = resolved.plan.errors;
  errors.insert(errors.end(), problems.begin(), problems.end());
  if (!options.plan_study.empty() && !options.plan_estimate)
    errors.push_back({"from", "names a study for an estimate, which is not asked for",
                      "add --estimate, or leave it out", MessageCode::conflicting_options});
  if (options.plan_estimate && errors.empty())
    resolved.estimate = estimate_of(resolved.plan, options, errors);
  return resolved;
}

void fill_in_memory(Plan& plan, const Hardware& hardware, const Options& options, Module& model) {
  if (plan.traits.memory == nullptr) return;
  try {
    const PrecisionPolicy precision = precision_policy(plan.precision, plan.amp_level);
    const std::vector<at::Device> nowhere(static_cast<std::size_t>(plan.devices_per_rank), at::kMeta);
    trainable(model).place(nowhere, precision);
    const std::vector<NamedOptimizer> setups = optimizer_setups(model, options);
    const std::vector<OptimizerTarget> targets = optimizer_targets(model, setups);
    plan.memory = plan.traits.memory(plan, {trainable(model), targets, precision});
    check_memory(plan, hardware, options);
  } catch (const ConfigError& error) {
    plan.errors.insert(plan.errors.end(), error.problems().begin(), error.problems().end());
  }
}

int print_plan(ResolvedPlan resolved, const Options& options, std::ostream& out,
               const std::vector<Problem>& problems, int columns) {
  Plan& plan = resolved.plan;
  plan.errors.insert(plan.errors.begin(), problems.begin(), problems.end());
  if (!problems.empty() && !options.json) throw ConfigError(plan.errors);
  plan.errors = first_of(plan.errors);
  plan.warnings = first_of(plan.warnings);
  out << (options.json ? json_of_plan(resolved) + "\n" : printable(to_text(plan)));
  if (!options.json && resolved.estimate) out << "  estimate    " << to_text(*resolved.estimate) << '\n';
  if (!options.json && plan.ok()) {
    out << printable(draw_nodes(plan, resolved.hardware, columns));
    if (plan.traits.draw != nullptr)
      out << printable(plan.traits.draw(plan, static_cast<std::size_t>(columns)));
  }
  out << std::flush;
  return static_cast<int>(plan.ok() ? ExitCode::done : ExitCode::refused);
}

int run_slurm_script(const Options& options, std::span<const char* const> words, const std::string& program,
                     std::ostream& out, const KnownStrategies& strategies, std::vector<Problem> problems) {
  const BatchJobOptions& job = options.batch_job;
  check_batch_job(options, problems);
  if (problems.empty()) {
    const Plan plan = resolve(options, hardware_of(job), world_of(job), strategies);
    problems = plan.errors;
    for (const Problem& warning : plan.warnings) log_warning(to_line(warning));
  }
  if (!problems.empty()) throw ConfigError(problems);
  const std::string script = slurm_script(options, program, options_of_fit(words));
  if (!job.submit) return out << script, 0;
  const std::string path = job.job_name + ".sbatch";
  const std::string number = submit_script(real_filesystem(), path, script);
  const std::string output = "slurm-" + number + ".out";
  if (!job.array.empty()) return out << "job " << number << ", from " << path << '\n', 0;
  out << "job " << number << ", from " << path << "; its output goes to " << output
      << " (Ctrl-C ends this view and not the job)\n";
  return follow_job(number, output, out);
}

}  // namespace cxtrain
