#include "cxtrain/cli/scaling_request.h"

#include <algorithm>
#include <string_view>

#include "cxtrain/cli/help_page.h"
#include "cxtrain/config/field_text.h"
#include "cxtrain/config/options.h"
#include "cxtrain/config/values.h"

namespace cxtrain {
namespace {

/// The words of a command line, each option with its value.
class WordReader {
 public:
  WordReader(std::span<const char* const> words, ScalingRequest& request)
      : words_(words), request_(request) {}

  void read() {
    if (!words_.empty() && is_action(words_.front())) {
      request_.action = words_.front();
      if (request_.action == "network") request_.folder = "network.json";
      next_ = 1;
    }
    while (next_ < words_.size()) read_word(words_[next_++]);
  }

 private:
  static bool is_action(const std::string& word) {
    return word == "measure" || word == "collect" || word == "report" || word == "predict" ||
           word == "network";
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
    } else if (name == (has_sizes() ? "--out" : "--from")) {
      take(request_.folder);
    } else if (request_.action == "predict" && name == "--to") {
      take(request_.to);
    } else if (request_.action == "predict" && name == "--network") {
      take(request_.network);
    } else if (has_sizes() && name == "--ranks") {
      take(request_.ranks);
    } else if ((has_sizes() || request_.action == "measure") && name == "--nodes") {
      take(request_.nodes);
    } else if (request_.action == "run" && name == "--repeats") {
      take(request_.rounds);
    } else if (request_.action == "run" && name == "--mode") {
      take(request_.mode);
    } else if (request_.action == "run" && word == "--submit") {
      request_.submit = true;
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
    if (text.empty())
      return request_.refuse(name, "a value is missing", "see `cxtrain_mpi scaling --help`",
                             MessageCode::missing_value);
    const Parsed<Value> parsed = field::parse<Value>(text);
    if (parsed) value = *parsed;
    if (!parsed) request_.refuse(name, parsed.error, "");
  }

  std::span<const char* const> words_;
  ScalingRequest& request_;
  std::size_t next_ = 0;
};

}  // namespace

ScalingRequest read_scaling_request(std::span<const char* const> words) {
  ScalingRequest request;
  WordReader(words, request).read();
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
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
  }
  std::sort(sizes.begin(), sizes.end());
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
