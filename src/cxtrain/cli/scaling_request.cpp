#include "cxtrain/cli/scaling_request.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string_view>

#include "cxtrain/cli/help_page.h"
#include "cxtrain/config/field_text.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// Reads the value of an option from a text. Returns why not, or "".
using ReadValue = std::function<std::string(const std::string& text)>;

template <class Value>
ReadValue into(Value& value) {
  return [&value](const std::string& text) {
    const Parsed<Value> parsed = field::parse<Value>(text);
    if (parsed) value = *parsed;
    return parsed.error;
  };
}

/// The options with a value that the action of the request has.
std::map<std::string, ReadValue> options_of_action(ScalingRequest& request) {
  const std::string& action = request.action;
  const bool has_sizes = action == "run" || action == "network";
  std::map<std::string, ReadValue> options{{has_sizes ? "--out" : "--from", into(request.folder)}};
  if (has_sizes) options["--ranks"] = into(request.ranks);
  if (has_sizes || action == "measure") options["--nodes"] = into(request.nodes);
  if (action == "run") options.insert({{"--repeats", into(request.rounds)}, {"--mode", into(request.mode)}});
  if (action == "predict") options.insert({{"--to", into(request.to)}, {"--network", into(request.network)}});
  return options;
}

}  // namespace

ScalingRequest read_scaling_request(std::span<const char* const> words) {
  constexpr const char* kSeeHelp = "see `cxtrain_mpi scaling --help`";
  constexpr std::array<std::string_view, 5> kActions{"measure", "collect", "report", "predict", "network"};
  ScalingRequest request;
  if (!words.empty() && std::ranges::find(kActions, words.front()) != kActions.end()) {
    request.action = words.front();
    words = words.subspan(1);
  }
  if (request.action == "network") request.folder = "network.json";
  const std::map<std::string, ReadValue> options = options_of_action(request);
  for (std::size_t next = 0; next < words.size();) {
    const std::string word = words[next++];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (word == "--help" || word == "-h") {
      request.help = true;
    } else if (word == "--json") {
      request.json = true;
    } else if (const auto option = options.find(name); option != options.end()) {
      std::string text;
      if (equals != std::string::npos) {
        text = word.substr(equals + 1);
      } else if (next < words.size() && !std::string_view(words[next]).starts_with("--")) {
        text = words[next++];
      }
      if (text.empty()) {
        request.refuse(name, "a value is missing", kSeeHelp, MessageCode::missing_value);
      } else if (const std::string why = option->second(text); !why.empty()) {
        request.refuse(name, why, "");
      }
    } else if (request.action != "run") {
      request.refuse(word, "is not an option of scaling " + request.action, kSeeHelp,
                     MessageCode::unknown_option);
    } else if (word == "--submit") {
      request.submit = true;
    } else {
      request.fit.push_back(word);
    }
  }
  return request;
}

std::vector<int> counts_of(const std::vector<std::int64_t>& numbers, const char* option,
                           ScalingRequest& request) {
  std::vector<int> counts;
  for (const std::int64_t number : numbers) {
    if (number < 1 || number > kMaxRanks) {
      request.refuse(option, std::to_string(number) + " is not within 1 and " + std::to_string(kMaxRanks), "",
                     MessageCode::out_of_range);
    } else {
      counts.push_back(static_cast<int>(number));
    }
  }
  return counts;
}

std::vector<StudySize> sizes_of(ScalingRequest& request) {
  const std::vector<int> ranks = counts_of(request.ranks, "--ranks", request);
  const std::vector<int> nodes = counts_of(request.nodes, "--nodes", request);
  if (request.ranks.empty() && request.problems.empty()) {
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
    if (std::ranges::find(sizes, size) == sizes.end()) sizes.push_back(size);
  }
  std::ranges::sort(sizes);
  return sizes;
}

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
  page.entry("--out FOLDER", "the folder of the study [scaling]");
  page.entry(
      "--submit",
      "submit a Slurm job for each number of nodes, one after the other, which measure what is missing. "
      "The options of slurm-script ask for nodes: --time, --partition, --account, --cpus_per_task, ...");
  page.heading("Afterwards");
  page.entry("scaling predict --from FOLDER --to LIST [--network FILE]",
             "step and efficiency of sizes that were not measured, also on another network: FILE is what "
             "scaling network has written there");
  page.entry("scaling measure --from FOLDER [--nodes N]",
             "measure what is missing, on N nodes only: what the jobs of --submit do");
  page.entry("scaling collect --from FOLDER", "write all files from the trainings that are there");
  page.entry("scaling report --from FOLDER", "write the reports from scaling.json");
  page.entry("scaling network [--ranks N] [--nodes M] [--out FILE]",
             "measure messages between ranks and nodes [2 ranks, or those of mpirun or srun; network.json]");
  page.entry("--json", "print JSON");
  return page.text();
}

}  // namespace cxtrain
