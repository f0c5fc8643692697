#include "cxtrain/cli/scaling_command.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/sha256.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/version.h"
#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/scaling_request.h"
#include "cxtrain/cli/slurm_script.h"
#include "cxtrain/cli/slurm_submission.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/slurm_allocation.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_choice.h"
#include "cxtrain/device/core_share.h"
#include "cxtrain/scaling/network_measurement.h"
#include "cxtrain/scaling/prediction.h"
#include "cxtrain/scaling/study_files.h"
#include "cxtrain/scaling/study_report.h"
#include "cxtrain/scaling/study_runner.h"

namespace cxtrain {
namespace {

constexpr int kDefaultSteps = 200;

/// Refuses options that the study sets for each training.
void refuse_own_options(const Options& options, ScalingRequest& request) {
  const TrainerOptions& trainer = options.trainer;
  const auto refuse = [&](bool given, const char* option, const char* hint) {
    if (given)
      request.refuse(option, "the study sets this option for each training", hint,
                     MessageCode::conflicting_options);
  };
  const char* const sizes = "leave it out: --ranks and --nodes give it";
  refuse(trainer.devices.has_value(), "devices", sizes);
  refuse(trainer.gpus.has_value(), "gpus", sizes);
  refuse(trainer.num_processes.has_value(), "num_processes", sizes);
  refuse(trainer.num_nodes.has_value(), "num_nodes", sizes);
  refuse(trainer.default_root_dir != TrainerOptions().default_root_dir, "default_root_dir",
         "leave it out: --out gives the folder");
  refuse(options.ckpt_path.has_value(), "ckpt_path",
         "leave the option out: each training of a study starts at step 0");
  refuse(trainer.fast_dev_run != 0, "fast_dev_run", "leave it out: a study reads the run folders");
  refuse(!trainer.logger, "logger", "leave it out: a study reads the run folders");
  refuse(trainer.barebones, "barebones", "leave it out: a study reads the run folders");
  if (trainer.max_steps == 0)
    request.refuse("max_steps", "a training without steps shows nothing", "use --max_steps 200",
                   MessageCode::out_of_range);
}

/// Sets the batch of all ranks for strong scaling.
void choose_batch(Study& study, const Options& options, ScalingRequest& request) {
  if (study.mode == ScalingMode::weak || study.sizes.empty()) return;
  const std::optional<std::int64_t> batch = options.data.batch_size;
  constexpr std::int64_t kMaxSamples = 1'000'000'000;
  if (!batch || *batch > kMaxSamples) {
    request.refuse("data.batch_size",
                   "is needed for strong scaling, up to " + std::to_string(kMaxSamples) +
                       ": the batch of a rank of the smallest size",
                   "write, for example, --data.batch_size 64", MessageCode::missing_value);
    return;
  }
  study.batch_size = *batch * study.sizes.front().ranks;
  for (const StudySize& size : study.sizes) {
    if (study.batch_size % size.ranks != 0)
      request.refuse("data.batch_size",
                     "a batch of " + std::to_string(study.batch_size) +
                         " samples over all ranks cannot be divided among " + name_of(size),
                     "use another --data.batch_size, or other --ranks", MessageCode::conflicting_options);
  }
}

std::string digest_of_files(const std::vector<std::string>& paths) {
  if (paths.empty()) return "";
  Sha256 digest;
  for (const std::string& path : paths) {
    const std::string content = read_text_file(path).value_or("");
    digest.update(content.data(), content.size());
  }
  return digest.hex_digest();
}

/// The options of `slurm-script` on the command line of a study.
struct BatchJobs {
  BatchJobOptions options;
  std::vector<std::string> words;  ///< "--time=0:30:00"
};

/// Reads the options of the training into the study, each once, in the order of their names. Returns those of
/// the jobs to submit. Appends what is wrong with the options.
BatchJobs read_fit_options(Study& study, ScalingRequest& request) {
  std::vector<const char*> words{request.submit ? kSlurmScript : "fit"};
  for (const std::string& word : request.fit) words.push_back(word.c_str());
  const ParsedCommandLine command = read_command_line(words, read_text_file);
  request.problems.insert(request.problems.end(), command.problems.begin(), command.problems.end());
  if (command.version || command.print_config || command.help != HelpAsked::none)
    request.refuse("", "a study trains, and cannot print help, version or configuration of fit",
                   "use `cxtrain_mpi fit` for that", MessageCode::conflicting_options);
  refuse_own_options(command.options, request);
  choose_batch(study, command.options, request);

  std::vector<Problem> known;
  const Tokens tokens = tokenize(words, known);
  for (const std::string& file : tokens.config_files) study.options.push_back("--config=" + file);
  study.config_sha256 = digest_of_files(tokens.config_files);
  BatchJobs jobs{command.options.batch_job, {}};
  std::vector<Setting> settings = last_of_each(tokens.settings);
  std::ranges::stable_sort(settings, {}, &Setting::key);
  for (const Setting& setting : settings) {
    if (study.mode == ScalingMode::strong && setting.key == "data.batch_size")
      continue;  // each size has its own
    const OptionEntry* const entry = find_option(setting.key);
    const bool of_job = entry != nullptr && entry->commands == kSlurmScript;
    (of_job ? jobs.words : study.options)
        .push_back("--" + setting.key + "=" + setting.value.value_or("null"));
  }
  const TrainerOptions& trainer = command.options.trainer;
  if (trainer.max_steps < 0 && !trainer.max_epochs && !trainer.max_time)
    study.options.push_back("--max_steps=" + std::to_string(kDefaultSteps));
  const auto refuse = [&](bool given, const char* option) {
    if (given)
      request.refuse(option, "is not for the jobs of a study", "leave the option out",
                     MessageCode::conflicting_options);
  };
  refuse(jobs.options.ntasks_per_node.has_value(), "ntasks_per_node");
  refuse(!jobs.options.array.empty(), "array");
  refuse(jobs.options.signal != BatchJobOptions().signal, "signal");
  return jobs;
}

/// The threads of each rank that the environment asks for.
std::optional<int> threads_asked_for() {
  const char* const given = std::getenv("OMP_NUM_THREADS");
  const std::string_view text = given == nullptr ? "" : given;  // "4,2": of nested regions, too
  const std::optional<std::int64_t> number = number_of_digits(text.substr(0, text.find(',')));
  if (!number || *number < 1 || *number > kMaxOfNode) return std::nullopt;
  return static_cast<int>(*number);
}

/// The threads that each rank of a study can have: a single rank would use all cores, and be compared with
/// ranks that share them.
int threads_of(const Study& study) {
  const int most = most_ranks_of_node(study), cores = static_cast<int>(cores_of_mask().size());
  return std::max(1, cores / std::max(1, most));
}

/// A study, and the requests of its jobs.
struct NewStudy {
  Study study;
  BatchJobs jobs;
};

NewStudy study_of(ScalingRequest& request) {
  Study study{.mode = request.mode, .sizes = sizes_of(request)};
  if (request.rounds < 1 || request.rounds > kMaxRounds) {
    request.refuse("--repeats",
                   std::to_string(request.rounds) + " is not within 1 and " + std::to_string(kMaxRounds), "",
                   MessageCode::out_of_range);
  } else {
    study.rounds = static_cast<int>(request.rounds);
  }
  const BatchJobs jobs = read_fit_options(study, request);
  // Jobs have other cores than this machine.
  const int threads = request.submit ? jobs.options.cpus_per_task.value_or(1) : threads_of(study);
  study.threads = threads_asked_for().value_or(threads);
  return {study, jobs};
}

/// The options of fit that `plan` takes, too.
std::vector<std::string> options_of_plan(const std::vector<std::string>& options) {
  std::vector<std::string> taken;
  for (const std::string& option : options) {
    const std::string key = option.substr(2, option.find('=') - 2);
    const OptionEntry* const entry = option.starts_with("--") ? find_option(key) : nullptr;
    if (entry == nullptr || takes_option(*entry, "plan")) taken.push_back(option);
  }
  return taken;
}

/// The words by which `plan` checks a training that this machine starts.
std::vector<std::string> words_of_plan(const Study& study, const StudySize& size) {
  std::vector<std::string> words = options_of_plan(options_of_point(study, size, "."));
  words.insert(words.begin(), "plan");
  return words;
}

/// The words by which `slurm-script` checks a training that a job starts.
std::vector<std::string> words_of_job(const Study& study, const StudySize& size, const BatchJobs& jobs) {
  std::vector<std::string> words{kSlurmScript, "--nodes", std::to_string(size.nodes), "--ntasks_per_node",
                                 std::to_string(size.ranks / size.nodes)};
  words.insert(words.end(), jobs.words.begin(), jobs.words.end());
  words.insert(words.end(), study.options.begin(), study.options.end());
  // A study's job gets no signal, and the check submits nothing.
  words.insert(words.end(), {"--signal=TERM@0", "--submit=false"});
  return words;
}

/// Checks each size by another command of the program: what would fail later is refused now. Prints all
/// errors. Returns the status of a check that failed, or 0.
int check_sizes(const NewStudy& asked, bool submits, const std::string& program, std::ostream& out) {
  constexpr double kPlanSeconds = 120;
  const Study& study = asked.study;
  int status = 0;
  std::string before;
  for (const StudySize& size : study.sizes) {
    std::vector<std::string> words =
        submits ? words_of_job(study, size, asked.jobs) : words_of_plan(study, size);
    words.insert(words.begin(), program);
    const CommandEnd end = run_command(words, kPlanSeconds);
    if (end.status == 0 || end.output == before) continue;
    out << "with " << name_of(size) << ":\n" << end.output << (end.output.ends_with('\n') ? "" : "\n");
    if (size.nodes > 1 && !submits && !slurm_allocation(slurm_environment()))
      out << "a study starts the ranks itself: start `cxtrain_mpi scaling` alone, in a Slurm job of "
          << size.nodes << " nodes, or let it submit jobs: --submit\n";
    status = end.status;
    before = end.output;
  }
  return status;
}

/// Problems of a plan, with the options that `scaling network` has in their places.
std::vector<Problem> in_words_of_network(std::vector<Problem> problems) {
  for (Problem& problem : problems) {
    if (problem.option == "num_nodes") problem.option = "nodes";
    if (problem.option == "devices") problem.option = "ranks";
  }
  return problems;
}

/// Returns how the study of the folder differs from this study; empty: the measurements of both belong
/// together.
std::string difference_of(const Study& before, const Study& now) {
  if (before.mode != now.mode) return "is of another mode, " + std::string(word_of(before.mode));
  if (before.batch_size != now.batch_size)
    return "has a batch of " + std::to_string(before.batch_size) + " samples over all ranks, and not " +
           std::to_string(now.batch_size);
  if (before.options != now.options)
    return "has other options: " + (before.options.empty() ? "none" : joined(before.options, " "));
  if (before.config_sha256 != now.config_sha256)
    return "was begun with another content of the --config files";
  if (before.threads != now.threads)
    return "has ranks of " + std::to_string(before.threads) + " threads, and not of " +
           std::to_string(now.threads) + " (OMP_NUM_THREADS=" + std::to_string(std::max(1, before.threads)) +
           " continues the study)";
  return "";
}

/// Takes what an earlier run of the study in the folder has measured into it.
void continue_study(Study& study, const std::string& folder, Filesystem& files) {
  const std::optional<Study> before = read_study(files, folder);
  if (!before) return;
  if (!threads_asked_for() && before->threads <= study.threads) study.threads = before->threads;
  if (const std::string difference = difference_of(*before, study); !difference.empty())
    throw ConfigError("out", "the study in " + folder + " " + difference, "use another folder",
                      MessageCode::conflicting_options);
  for (const StudySize& size : before->sizes) {
    if (std::ranges::find(study.sizes, size) == study.sizes.end()) study.sizes.push_back(size);
  }
  std::ranges::sort(study.sizes);
  study.rounds = std::max(study.rounds, before->rounds);
}

std::string today() { return date_text(seconds_since_1970(), "%Y-%m-%d"); }

StudyResult collect(const Study& study, const std::string& folder, Filesystem& files) {
  StudyResult result =
      analyse({.study = study, .program = std::string("cxtrain ") + CXTRAIN_VERSION, .date = today()},
              read_points(files, folder, study));
  write_result(files, folder, result);
  write_reports(files, folder, result);
  return result;
}

void print_result(const StudyResult& result, const ScalingRequest& request, std::ostream& out) {
  if (request.json) {
    out << text_of_json(json_of(result)) << '\n';
    return;
  }
  out << '\n' << printable(to_text(result)) << request.folder << "/report.html\n";
}

/// Trainings that the study has not started itself: takes the measurements of those that have ended.
void adopt_runs(const Study& study, const std::string& folder, Filesystem& files) {
  for (const StudyPoint& point : schedule_of(study)) {
    if (const auto before = read_point(files, folder, point); before && !before->failed()) continue;
    if (const auto measured = measure_run(files, folder, point); measured && !measured->failed())
      write_point(files, folder, *measured);
  }
}

Study study_in(const std::string& folder, Filesystem& files) {
  std::optional<Study> study = read_study(files, folder);
  if (!study)
    throw ConfigError("from", "there is no study.json in " + folder, "run `cxtrain_mpi scaling` first",
                      MessageCode::invalid_value);
  return *std::move(study);
}

/// Measures what is missing of a part of the study, and writes the files of the whole study. Returns the exit
/// status.
int measure(const Study& study, const Study& part, const ScalingRequest& request, const std::string& program,
            Filesystem& files, std::ostream& out) {
  std::ostream& progress = request.json ? std::cerr : out;
  const int status = run_study(part, request.folder, program, files, progress);
  const StudyResult result = collect(study, request.folder, files);
  if (status != 0) return status;
  print_result(result, request, out);
  const bool failed =
      std::ranges::any_of(result.sizes, [](const SizeResult& size) { return !size.failures.empty(); });
  return static_cast<int>(failed ? ExitCode::failure : ExitCode::done);
}

void require_one_process() {
  if (read_launch_environment().size > 1)
    throw ConfigError(
        "", "scaling starts its ranks itself, and mpirun or srun has started it on several ranks",
        "start it alone, in an allocation with the nodes of the largest size", MessageCode::wrong_ranks);
}

int run_new_study(ScalingRequest& request, const std::string& program, Filesystem& files, std::ostream& out) {
  require_one_process();
  const NewStudy asked = study_of(request);
  if (!request.problems.empty()) throw ConfigError(request.problems);
  if (const int status = check_sizes(asked, request.submit, program, out); status != 0) return status;
  Study study = asked.study;
  std::unique_ptr<FileLock> lock = take_study_folder(files, request.folder);
  continue_study(study, request.folder, files);
  write_study(files, request.folder, study);
  if (request.submit) {
    lock.reset();  // the first job may start at once
    submit_study(study, asked.jobs.options, request.folder, program, files, out);
    return 0;
  }
  return measure(study, study, request, program, files, out);
}

/// Measures what the jobs of `submit_study` are for.
int measure_study(ScalingRequest& request, const std::string& program, Filesystem& files, std::ostream& out) {
  const std::vector<int> nodes = counts_of(request.nodes, "--nodes", request);
  if (nodes.size() > 1) request.refuse("--nodes", "is one number for scaling measure", "");
  if (!request.problems.empty()) throw ConfigError(request.problems);
  require_one_process();
  const Study study = study_in(request.folder, files);
  const Study part = nodes.empty() ? study : part_on_nodes(study, nodes.front());
  if (part.sizes.empty())
    throw ConfigError(
        "--nodes",
        "the study in " + request.folder + " has no size on " + std::to_string(nodes.front()) + " nodes", "",
        MessageCode::invalid_value);
  const std::unique_ptr<FileLock> lock = take_study_folder(files, request.folder);
  return measure(study, part, request, program, files, out);
}

int run_predictions(ScalingRequest& request, Filesystem& files, std::ostream& out) {
  const std::vector<int> to = counts_of(request.to, "--to", request);
  if (request.to.empty())
    request.refuse("--to", "is missing", "write, for example, --to 8,16", MessageCode::missing_value);
  if (!request.problems.empty()) throw ConfigError(request.problems);
  std::optional<Network> network;
  if (!request.network.empty()) network = read_network(files, request.network);
  const Forecast found = predict(read_result(files, request.folder), to, network);
  out << (request.json ? text_of_json(json_of(found)) + "\n" : printable(to_text(found)));
  const bool refused =
      std::ranges::any_of(found.sizes, [](const SizeForecast& each) { return !each.refusal.empty(); });
  return static_cast<int>(refused ? ExitCode::refused : ExitCode::done);
}

}  // namespace

int run_scaling_command(std::span<const char* const> words, const std::string& program, Filesystem& files,
                        std::ostream& out) {
  ScalingRequest request = read_scaling_request(words);
  if (request.help) return out << scaling_help(), 0;
  if (request.action == "run") return run_new_study(request, program, files, out);
  if (request.action == "measure") return measure_study(request, program, files, out);
  if (request.action == "predict") return run_predictions(request, files, out);
  if (!request.problems.empty()) throw ConfigError(request.problems);
  if (request.action == "report") {
    const StudyResult result = read_result(files, request.folder);
    write_reports(files, request.folder, result);
    print_result(result, request, out);
    return 0;
  }
  const Study study = study_in(request.folder, files);
  adopt_runs(study, request.folder, files);
  print_result(collect(study, request.folder, files), request, out);
  return 0;
}

bool asks_for_network(std::span<const char* const> words) {
  return words.size() > 1 && words[0] == std::string_view(kScaling) &&
         words[1] == std::string_view("network");
}

int run_network_command(Job& job, std::span<const char* const> words, Filesystem& files, std::ostream& out) {
  World& world = job.world();
  ScalingRequest request = read_scaling_request(words);
  if (request.help) {
    if (world.is_root()) out << scaling_help() << std::flush;
    return 0;
  }
  const bool alone = world.size() == 1;
  if (alone && request.ranks.empty()) request.ranks = {2};
  Options options;
  options.trainer.strategy = std::string(kStrategyOfSeveralRanks);
  options.trainer.accelerator = "cpu";
  if (!request.ranks.empty()) {
    const std::vector<StudySize> sizes = sizes_of(request);
    if (sizes.size() > 1) request.refuse("--ranks", "is one number for scaling network", "");
    if (request.problems.empty()) {
      options.trainer.devices = Devices(sizes.front().ranks / sizes.front().nodes);
      if (sizes.front().nodes > 1) options.trainer.num_nodes = sizes.front().nodes;
    }
  }
  if (!request.problems.empty()) throw ConfigError(request.problems);
  const Plan plan =
      resolve(options, job.hardware(), world.facts(), {{kStrategyOfSeveralRanks, KnownStrategy{}}});
  if (!plan.ok()) throw ConfigError(in_words_of_network(plan.errors));
  if (needs_launch(plan, world.facts())) return job.start_ranks(plan);
  if (world.size() == 1)
    throw ConfigError("--ranks", "a network needs two ranks", "use --ranks 2", MessageCode::wrong_ranks);
  NetworkTimes times = measure_network(world);
  if (!world.is_root()) return 0;
  times.date = today();
  write_network(files, request.folder, times);
  out << (request.json ? text_of_json(json_of(times)) + "\n"
                       : printable(to_text(times)) + request.folder + "\n")
      << std::flush;
  return 0;
}

}  // namespace cxtrain
