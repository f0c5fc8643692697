#include "cxtrain/cli/scaling_command.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/version.h"
#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/help_page.h"
#include "cxtrain/cli/subcommands.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/config/field_text.h"
#include "cxtrain/config/plan.h"
#include "cxtrain/config/strategy_choice.h"
#include "cxtrain/config/values.h"
#include "cxtrain/device/core_share.h"
#include "cxtrain/scaling/network_measurement.h"
#include "cxtrain/scaling/prediction.h"
#include "cxtrain/scaling/study_files.h"
#include "cxtrain/scaling/study_report.h"
#include "cxtrain/scaling/study_runner.h"

namespace cxtrain {
namespace {

constexpr int kDefaultSteps = 200;
constexpr int kMostRounds = 1000;

struct ScalingRequest {
  std::string action = "run";  ///< or collect, report, predict
  std::string folder = "scaling";
  std::vector<std::int64_t> ranks, nodes, to;
  std::int64_t rounds = 3;
  ScalingMode mode = ScalingMode::weak;
  std::vector<std::string> fit;  ///< words that are not scaling's own
  bool json = false, help = false;
  std::vector<Problem> problems;

  void refuse(const std::string& option, const std::string& message, const std::string& hint,
              MessageCode code = MessageCode::invalid_value) {
    problems.push_back({option, message, hint, code});
  }
};

std::string scaling_help() {
  HelpPage page = page_of_command(
      kScaling,
      "Trains on several numbers of ranks, several times each, and reports throughput, speedup, efficiency "
      "and "
      "what limits them: scaling.json, scaling.csv, report.md and report.html in the study's folder. Each "
      "training is a process of its own. A study that was stopped goes on when the same command is given "
      "again; with more --ranks or --repeats only what is missing is measured. Other options are those of "
      "fit "
      "(--max_steps is 200 by default).");
  page.line();
  page.entry("--ranks LIST", "numbers of ranks: 1,2,4");
  page.entry("--nodes LIST", "the nodes of each number of ranks, or of all: 1,1,2 [1]");
  page.entry("--repeats R", "trainings of each size [3]");
  page.entry(
      "--mode weak|strong",
      "weak: --data.batch_size is the batch of each rank. strong: it is the batch of a rank of the smallest "
      "size, and all sizes have the same batch over all ranks [weak]");
  page.entry("--out FOLDER", "of the study [scaling]");
  page.heading("Afterwards");
  page.entry("scaling predict --from FOLDER --to LIST",
             "step and efficiency of sizes that were not measured");
  page.entry("scaling collect --from FOLDER", "write all files from the trainings that are there");
  page.entry("scaling report --from FOLDER", "write the reports from scaling.json");
  page.entry("scaling network [--ranks N] [--nodes M] [--out FILE]",
             "measure messages between ranks and nodes [2 ranks, or those of mpirun or srun; network.json]");
  page.entry("--json", "print JSON");
  return page.text();
}

/// The words of a command line, each option with its value.
class WordReader {
 public:
  WordReader(std::span<const char* const> words, ScalingRequest& request)
      : words_(words), request_(request) {}

  void read() {
    if (!words_.empty() && is_action(words_.front())) {
      request_.action = words_.front();
      next_ = 1;
    }
    while (next_ < words_.size()) read_word(words_[next_++]);
  }

 private:
  static bool is_action(const std::string& word) {
    return word == "collect" || word == "report" || word == "predict" || word == "network";
  }

  bool has_sizes() const { return request_.action == "run" || request_.action == "network"; }

  void read_word(const std::string& word) {
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto take = [&](auto& value) { take_value(name, word, equals, value); };
    if (word == "--help" || word == "-h") {
      request_.help = true;
    } else if (word == "--json") {
      request_.json = true;
    } else if (name == "--out" || name == "--from") {
      take(request_.folder);
    } else if (name == "--to") {
      take(request_.to);
    } else if (has_sizes() && name == "--ranks") {
      take(request_.ranks);
    } else if (has_sizes() && name == "--nodes") {
      take(request_.nodes);
    } else if (request_.action == "run" && name == "--repeats") {
      take(request_.rounds);
    } else if (request_.action == "run" && name == "--mode") {
      take(request_.mode);
    } else if (request_.action == "run") {
      request_.fit.push_back(word);
    } else {
      request_.refuse(word, "is not an option of scaling " + request_.action,
                      "see `cxtrain_mpi scaling --help`", MessageCode::unknown_option);
    }
  }

  template <class Value>
  void take_value(const std::string& name, const std::string& word, std::size_t equals, Value& value) {
    std::string text;
    if (equals != std::string::npos) {
      text = word.substr(equals + 1);
    } else if (next_ < words_.size() && !std::string_view(words_[next_]).starts_with("--")) {
      text = words_[next_++];
    }
    if (text.empty()) return request_.refuse(name, "a value is missing", "", MessageCode::missing_value);
    if constexpr (Choice<Value>) {
      const Parsed<Value> parsed = parse_choice<Value>(text);
      if (parsed) value = *parsed;
      if (!parsed) request_.refuse(name, parsed.error, "write weak or strong");
    } else {
      const Parsed<Value> parsed = field::parse<Value>(text);
      if (parsed) value = *parsed;
      if (!parsed) request_.refuse(name, parsed.error, "");
    }
  }

  std::span<const char* const> words_;
  ScalingRequest& request_;
  std::size_t next_ = 0;
};

std::vector<int> counts_of(const std::vector<std::int64_t>& numbers, const char* option,
                           ScalingRequest& request) {
  std::vector<int> counts;
  for (const std::int64_t number : numbers) {
    if (number < 1 || number > kMostRanks) {
      request.refuse(option, std::to_string(number) + " is not within 1 and " + std::to_string(kMostRanks),
                     "", MessageCode::out_of_range);
    } else {
      counts.push_back(static_cast<int>(number));
    }
  }
  return counts;
}

std::vector<StudySize> sizes_of(ScalingRequest& request) {
  const std::vector<int> ranks = counts_of(request.ranks, "--ranks", request);
  const std::vector<int> nodes = counts_of(request.nodes, "--nodes", request);
  if (request.ranks.empty()) {
    request.refuse("--ranks", "is missing", "write, for example, --ranks 1,2,4", MessageCode::missing_value);
  } else if (request.nodes.size() > 1 && request.nodes.size() != request.ranks.size()) {
    request.refuse("--nodes",
                   "has " + std::to_string(request.nodes.size()) + " numbers, and --ranks has " +
                       std::to_string(request.ranks.size()),
                   "write one number for each of --ranks, or one for all", MessageCode::conflicting_options);
  }
  std::vector<StudySize> sizes;
  if (!request.problems.empty()) return sizes;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const StudySize size{ranks[i], nodes.empty() ? 1 : nodes[nodes.size() == 1 ? 0 : i]};
    if (size.ranks % size.nodes != 0)
      request.refuse("--nodes",
                     std::to_string(size.nodes) + " nodes do not divide " + name_of({size.ranks, 1}),
                     "use a multiple", MessageCode::conflicting_options);
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end(), [](const StudySize& a, const StudySize& b) {
    return std::pair(a.ranks, a.nodes) < std::pair(b.ranks, b.nodes);
  });
  return sizes;
}

/// Appends what is wrong with the options of the training, as far as the study depends on them.
void check_fit_options(Study& study, ScalingRequest& request) {
  std::vector<const char*> words{"fit"};
  for (const std::string& word : request.fit) words.push_back(word.c_str());
  const ParsedCommandLine command = read_command_line(words, read_text_file);
  for (const Problem& problem : command.problems) request.problems.push_back(problem);
  const TrainerOptions& trainer = command.options.trainer;
  const auto refuse_own = [&](bool given, const char* option) {
    if (given)
      request.refuse(option, "the study sets this option for each training",
                     "leave it out: --ranks and --nodes give it", MessageCode::conflicting_options);
  };
  refuse_own(trainer.devices.has_value(), "devices");
  refuse_own(trainer.gpus.has_value(), "gpus");
  refuse_own(trainer.num_processes.has_value(), "num_processes");
  refuse_own(trainer.num_nodes.has_value(), "num_nodes");
  if (trainer.max_steps < 0 && !trainer.max_epochs && !trainer.max_time)
    study.options.insert(study.options.end(), {"--max_steps", std::to_string(kDefaultSteps)});
  if (study.mode == ScalingMode::weak || study.sizes.empty()) return;
  const std::optional<std::int64_t> batch = command.options.data.batch_size;
  if (!batch) {
    request.refuse("data.batch_size",
                   "is needed for strong scaling: the batch of a rank of the smallest size",
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

Study study_of(ScalingRequest& request) {
  Study study{.mode = request.mode, .sizes = sizes_of(request), .options = request.fit};
  if (request.rounds < 1 || request.rounds > kMostRounds) {
    request.refuse("--repeats",
                   std::to_string(request.rounds) + " is not within 1 and " + std::to_string(kMostRounds), "",
                   MessageCode::out_of_range);
  } else {
    study.rounds = static_cast<int>(request.rounds);
  }
  check_fit_options(study, request);
  // A single rank would use all cores, and be compared with ranks that share them.
  const int most = most_ranks_of_node(study), cores = static_cast<int>(cores_of_mask().size());
  if (std::getenv("OMP_NUM_THREADS") == nullptr && most > 0) study.threads = std::max(1, cores / most);
  return study;
}

/// Asks `program plan` for each size: what would fail later is refused now. Prints the errors. Returns the
/// status of the first plan that failed, or 0.
int check_plans(const Study& study, const std::string& program, std::ostream& out) {
  constexpr double kPlanSeconds = 120;
  for (const StudySize& size : study.sizes) {
    std::vector<std::string> words{program, "plan"};
    const std::vector<std::string> options = options_of_point(study, size, ".");
    words.insert(words.end(), options.begin(), options.end());
    const CommandEnd end = run_command(words, kPlanSeconds);
    if (end.status == 0) continue;
    out << "with " << name_of(size) << ":\n" << end.output;
    return end.status;
  }
  return 0;
}

/// Takes what an earlier run of the study in the folder has measured into it.
void continue_study(Study& study, const std::string& folder, Filesystem& files) {
  const std::optional<Study> before = read_study(files, folder);
  if (!before) return;
  if (before->mode != study.mode || before->options != study.options ||
      before->batch_size != study.batch_size)
    throw ConfigError("out", "the folder " + folder + " has a study with other options",
                      "use another folder, or the options in its study.json",
                      MessageCode::conflicting_options);
  for (const StudySize& size : before->sizes) {
    if (std::find(study.sizes.begin(), study.sizes.end(), size) == study.sizes.end())
      study.sizes.push_back(size);
  }
  std::sort(study.sizes.begin(), study.sizes.end(), [](const StudySize& a, const StudySize& b) {
    return std::pair(a.ranks, a.nodes) < std::pair(b.ranks, b.nodes);
  });
  study.rounds = std::max(study.rounds, before->rounds);
  study.threads = before->threads;
}

std::string today() {
  const auto seconds = static_cast<std::time_t>(seconds_since_1970());
  std::tm local{};
  std::array<char, 32> text{};
  if (localtime_r(&seconds, &local) == nullptr) return "";
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &local);
  return text.data();
}

StudyResult collect(const Study& study, const std::string& folder, Filesystem& files) {
  StudyResult result = analyse({.study = study,
                                .program = std::string("cxtrain ") + CXTRAIN_VERSION,
                                .date = today(),
                                .cores = static_cast<int>(cores_of_mask().size())},
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

int run_new_study(ScalingRequest& request, const std::string& program, Filesystem& files, std::ostream& out) {
  if (read_launch_environment().size > 1)
    throw ConfigError(
        "", "scaling starts its ranks itself, and mpirun or srun has started it on several ranks",
        "start it alone, in an allocation with the nodes of the largest size", MessageCode::wrong_ranks);
  Study study = study_of(request);
  if (!request.problems.empty()) throw ConfigError(request.problems);
  if (const int status = check_plans(study, program, out); status != 0) return status;
  const std::unique_ptr<FileLock> lock = take_study_folder(files, request.folder);
  continue_study(study, request.folder, files);
  write_study(files, request.folder, study);
  std::ostream& progress = request.json ? std::cerr : out;
  const int status = run_study(study, request.folder, program, files, progress);
  const StudyResult result = collect(study, request.folder, files);
  if (status != 0) return status;
  print_result(result, request, out);
  const bool failed = std::any_of(result.sizes.begin(), result.sizes.end(),
                                  [](const SizeResult& size) { return !size.failures.empty(); });
  return static_cast<int>(failed ? ExitCode::failure : ExitCode::done);
}

int run_predictions(ScalingRequest& request, Filesystem& files, std::ostream& out) {
  const std::vector<int> to = counts_of(request.to, "--to", request);
  if (request.to.empty())
    request.refuse("--to", "is missing", "write, for example, --to 8,16", MessageCode::missing_value);
  if (!request.problems.empty()) throw ConfigError(request.problems);
  const Forecast found = predict(read_result(files, request.folder), to);
  out << (request.json ? text_of_json(json_of(found)) + "\n" : printable(to_text(found)));
  const bool refused = std::any_of(found.sizes.begin(), found.sizes.end(),
                                   [](const SizeForecast& each) { return !each.refusal.empty(); });
  return static_cast<int>(refused ? ExitCode::refused : ExitCode::done);
}

}  // namespace

int run_scaling_command(std::span<const char* const> words, const std::string& program, Filesystem& files,
                        std::ostream& out) {
  ScalingRequest request;
  WordReader(words, request).read();
  if (request.help) return out << scaling_help(), 0;
  if (request.action == "run") return run_new_study(request, program, files, out);
  if (request.action == "predict") return run_predictions(request, files, out);
  if (!request.problems.empty()) throw ConfigError(request.problems);
  if (request.action == "report") {
    const StudyResult result = read_result(files, request.folder);
    write_reports(files, request.folder, result);
    print_result(result, request, out);
    return 0;
  }
  const std::optional<Study> study = read_study(files, request.folder);
  if (!study)
    throw ConfigError("from", "there is no study.json in " + request.folder,
                      "run `cxtrain_mpi scaling` first", MessageCode::invalid_value);
  print_result(collect(*study, request.folder, files), request, out);
  return 0;
}

bool asks_for_network(std::span<const char* const> words) {
  return words.size() > 1 && words[0] == std::string_view(kScaling) &&
         words[1] == std::string_view("network");
}

int run_network_command(Job& job, std::span<const char* const> words, Filesystem& files, std::ostream& out) {
  World& world = job.world();
  ScalingRequest request;
  request.folder = "network.json";
  WordReader(words, request).read();
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
  if (!plan.ok()) throw ConfigError(plan.errors);
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
