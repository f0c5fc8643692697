#include "cxtrain/cli/restarting.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>

#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/config/values.h"
#include "cxtrain/report/read_run.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/report/run_lock.h"
#include "cxtrain/trainer/resume.h"

namespace cxtrain {
namespace {

/// The newest run of this restarter; empty: none of its jobs has come so far.
std::string run_of(Filesystem& files, const Options& options, const std::string& restarter) {
  for (const std::string& run : version_dirs(files, options.trainer.default_root_dir)) {
    if (belongs_to_this_user(files, run) && restarter_of(files, run) == restarter) return run;
  }
  return {};
}

/// Fills in what the job has left. Throws an Error if the disk fails.
void read_restart_point(Filesystem& files, const Options& options, const Plan& plan,
                        const std::string& restarter, RestartPoint& point) {
  point.run = run_of(files, options, restarter);
  if (point.run.empty()) return;
  std::vector<std::string> damaged;  // the next job says so
  const std::vector<FoundCheckpoint> found = checkpoints_of_run(files, point.run, options, damaged);
  if (!found.empty()) {
    point.step = found[0].manifest.global_step;
    point.samples = found[0].manifest.global_batch / plan.accumulate_grad_batches;
    // Several may be of the same step.
    const auto before = std::ranges::find_if(
        found, [&](const FoundCheckpoint& each) { return each.manifest.global_step < point.step; });
    if (before != found.end()) point.before = before->path;
  }
  constexpr std::uint64_t kMaxSummaryBytes = 1 << 24;
  const auto summary = parse_summary(text_of_run_file(files, point.run + "/run.json", kMaxSummaryBytes));
  point.trained_seconds = summary ? summary->seconds : 0;
}

/// A file server that has just lost a node may fail for some seconds: `tries`, 2 s apart.
RestartPoint look(Filesystem& files, const Options& options, const Plan& plan, const std::string& restarter,
                  int tries) {
  RestartPoint point;
  if (options.data.batch_size) point.samples = *options.data.batch_size * plan.world_size;
  for (int tried = 1;; ++tried) {
    try {
      read_restart_point(files, options, plan, restarter, point);
      point.unreadable.clear();
      return point;
    } catch (const Error& error) {
      point.unreadable = "the checkpoints cannot be read: " + std::string(error.what());
    }
    if (tried >= tries) return point;
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
}

/// The devices of ranks, by their numbers in the plan, as `--devices` takes them.
std::string devices_of(const Plan& plan, const std::vector<int>& ranks) {
  if (plan.accelerator == "cpu")
    return std::to_string(ranks.size() * static_cast<std::size_t>(plan.devices_per_rank));
  std::string list;
  for (const int rank : ranks) {
    for (const std::string& device : plan.ranks[static_cast<std::size_t>(rank)].devices)
      list += device.substr(device.find(':') + 1) + ",";  // of "cuda:3"
  }
  // The last comma stays for one device: "3" would be a number of them.
  if (std::ranges::count(list, ',') > 1) list.pop_back();
  return list;
}

/// An option that sets the checkpoint to start from, under its older name. The program rejects it beside
/// --ckpt_path.
bool is_older_ckpt_path(const std::string& word) {
  if (!word.starts_with("--")) return false;
  const OptionEntry* entry = find_option(option_key(word));
  return entry != nullptr && entry->canonical == "ckpt_path";
}

std::vector<std::string> without_older_ckpt_path(std::vector<std::string> words) {
  for (auto word = words.begin(); word != words.end();) {
    if (!is_older_ckpt_path(*word)) {
      ++word;
      continue;
    }
    const bool value_follows = word->find('=') == std::string::npos && std::next(word) != words.end();
    word = words.erase(word, word + (value_follows ? 2 : 1));
  }
  return words;
}

/// Whether the job is to be started again, and nobody does so yet.
bool wants_restarter(const Options& options) {
  return options.max_restarts > 0 && read_launch_environment().restarter.empty();
}

}  // namespace

bool restarts_job(const Options& options, const WorldFacts& launched) {
  return wants_restarter(options) && launched.launched_by == LaunchedBy::alone;
}

void check_restarts(const Options& options, const Plan& plan, const WorldFacts& launched,
                    std::vector<Problem>& problems) {
  if (options.min_ranks > 0 && plan.num_nodes > 1) {
    problems.push_back(
        {"min_ranks",
         "leaves ranks of one node out, and this plan has " + std::to_string(plan.num_nodes) + " nodes",
         "drop it: after the failure of a node have the job requeued", MessageCode::conflicting_options});
  }
  if (options.min_ranks > 0 && plan.traits.divides_layers) {
    problems.push_back({"min_ranks",
                        "leaves ranks out, and a step of the strategy '" + plan.strategy +
                            "', which divides the layers, then has another number of samples",
                        "drop it, or use --strategy zero", MessageCode::conflicting_options});
  }
  if (options.min_ranks > plan.world_size) {
    problems.push_back(
        {"min_ranks",
         std::to_string(options.min_ranks) + " ranks are to remain of " + std::to_string(plan.world_size),
         "--min_ranks " + std::to_string(plan.world_size) + " or fewer", MessageCode::out_of_range});
  }
  if (!wants_restarter(options) || launched.launched_by == LaunchedBy::alone) return;
  problems.push_back(
      {"max_restarts",
       std::string(word_of(launched.launched_by)) +
           " has started the ranks, and ends with the first of them that dies",
       "start cxtrain_mpi by itself, with --devices " + std::to_string(launched.max_local_size) +
           (launched.num_nodes > 1 ? " --num_nodes " + std::to_string(launched.num_nodes) + " in a Slurm job"
                                   : std::string()) +
           ": it then starts the ranks, too",
       MessageCode::wrong_ranks});
}

RestartPlan make_restart_plan(const Options& options, const Plan& plan, const Program& program,
                              Filesystem& files) {
  std::vector<int> left(static_cast<std::size_t>(plan.world_size));
  std::iota(left.begin(), left.end(), 0);
  return {
      .limits = {options.max_restarts, plan.world_size, options.min_ranks},
      .requeue_signal = signal_number(options.trainer.requeue_signal),
      .by_srun = plan.launcher == "srun",
      .look = [&files, &options, &plan](const std::string& restarter,
                                        int tries) { return look(files, options, plan, restarter, tries); },
      .program =
          [&plan, &program, left](const NextJob& next) mutable {
            Program job = program;
            const auto add = [&](const char* option, const std::string& value) {
              job.arguments.insert(job.arguments.end(), {option, value});
            };
            if (!next.from.empty()) {
              job.arguments = without_older_ckpt_path(job.arguments);
              add("--ckpt_path", next.from);
            }
            if (next.without) {
              left.erase(left.begin() + *next.without);
              left.resize(static_cast<std::size_t>(next.ranks));
            }
            if (next.samples > 0) {
              add("--devices", devices_of(plan, left));
              add("--data.batch_size", std::to_string(next.samples / next.ranks));
            }
            return job;
          }};
}

}  // namespace cxtrain
