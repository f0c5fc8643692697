#include "cxtrain/cli/slurm_submission.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <ostream>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cli/slurm_script.h"
#include "cxtrain/scaling/study_files.h"

namespace cxtrain {
namespace {

/// How long Slurm's controller may take to answer.
constexpr double kControllerSeconds = 60;
constexpr std::chrono::seconds kLookAgain{1};

CommandEnd ask_slurm(const std::vector<std::string>& words) { return run_command(words, kControllerSeconds); }

CommandEnd show_job(const std::string& job) {
  return ask_slurm({"scontrol", "--oneliner", "show", "job", job});
}

/// Whether Slurm no longer has a record of the job.
bool is_forgotten(const CommandEnd& shown) {
  return shown.output.find("Invalid job id") != std::string::npos;
}

/// "COMPLETED" of "... JobState=COMPLETED ..."; empty: it is not there.
std::string field_of(const std::string& text, const std::string& name) {
  const std::size_t at = (" " + text).find(" " + name + "=");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 1, end = text.find_first_of(" \n", begin);
  return text.substr(begin, end == std::string::npos ? end : end - begin);
}

bool has_ended(const std::string& state) {
  constexpr std::array kGoesOn{"PENDING",  "CONFIGURING",  "RUNNING",      "SUSPENDED",    "COMPLETING",
                               "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",  "SIGNALING",    "STAGE_OUT",
                               "STOPPED",  "RESIZING",     "SPECIAL_EXIT", "RESV_DEL_HOLD"};
  for (const std::string_view each : kGoesOn) {
    if (state == each) return false;
  }
  return true;
}

/// Returns whether Slurm has the job run, or will run it. Throws Error with scontrol's own words.
bool goes_on(const std::string& job) {
  const CommandEnd shown = show_job(job);
  if (shown.status == 0) return !has_ended(field_of(shown.output, "JobState"));
  if (is_forgotten(shown)) return false;
  throw Error(ExitCode::failure, MessageCode::launch_failed,
              "Slurm does not show job " + job + ": " + shortened(shown.output, 300));
}

/// Prints what has come to a file since the last time.
class Tail {
 public:
  Tail(std::string path, std::ostream& out) : path_(std::move(path)), out_(out) {}
  void print() {
    std::ifstream file(path_, std::ios::binary);
    if (!file.seekg(at_)) return;  // there is none yet
    std::array<char, 65536> part{};
    while (file.read(part.data(), part.size()), file.gcount() > 0) {
      out_.write(part.data(), file.gcount());
      at_ += file.gcount();
    }
    out_.flush();
  }

 private:
  std::string path_;
  std::ostream& out_;
  std::streamoff at_ = 0;
};

/// A job with the trainings of one number of nodes.
struct StudyJob {
  BatchJobOptions requests;
  std::size_t trainings = 0;  ///< that are missing
};

std::size_t missing_of(const Study& study, const std::string& folder, Filesystem& files) {
  const std::vector<StudyPoint> points = schedule_of(study);
  return static_cast<std::size_t>(std::ranges::count_if(points, [&](const StudyPoint& point) {
    const auto measured = read_point(files, folder, point);
    return !measured || measured->failed();
  }));
}

std::vector<StudyJob> missing_jobs(const Study& study, const BatchJobOptions& job, const std::string& folder,
                                   Filesystem& files) {
  std::set<int> nodes;
  for (const StudySize& size : study.sizes) nodes.insert(size.nodes);
  std::vector<StudyJob> jobs;
  for (const int each : nodes) {
    const Study part = part_on_nodes(study, each);
    const std::size_t missing = missing_of(part, folder, files);
    if (missing == 0) continue;
    StudyJob& next = jobs.emplace_back(StudyJob{job, missing});
    next.requests.nodes = each;
    next.requests.ntasks_per_node = most_ranks_of_node(part);
    if (job.job_name == BatchJobOptions().job_name)
      next.requests.job_name = "scaling-n" + std::to_string(each);
  }
  return jobs;
}

/// A name of a file in which Slurm replaces nothing but `%j`, by the job's number.
std::string output_of(const std::string& folder, int nodes) {
  std::string name;
  for (const char c : folder) name += c == '%' ? std::string("%%") : std::string(1, c);
  return name + "/jobs/n" + std::to_string(nodes) + "-%j.out";
}

}  // namespace

std::string submit_script(Filesystem& files, const std::string& path, const std::string& script,
                          const std::vector<std::string>& options) {
  write_atomically(files, path, script);
  std::vector<std::string> words{"sbatch", "--parsable"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back(path.starts_with('/') ? path : "./" + path);
  const CommandEnd end = ask_slurm(words);
  if (end.status != 0) {
    throw Error(ExitCode::refused, MessageCode::launch_failed,
                "sbatch refuses " + path + ": " + shortened(end.output, 400));
  }
  // "12" or, in a federation, "12;cluster", after what sbatch warns of.
  std::istringstream lines(end.output);
  for (std::string line; std::getline(lines, line);) {
    const std::string number = line.substr(0, line.find(';'));
    if (number_of_digits(number)) return number;
  }
  throw Error(ExitCode::failure, MessageCode::launch_failed,
              "sbatch names no job for " + path + ": " + shortened(end.output, 400));
}

int follow_job(const std::string& job, const std::string& output, std::ostream& out) {
  Tail tail(output, out);
  std::string last;
  constexpr int kMaxFailures = 300;
  int failures = 0;  // in a row
  for (;;) {
    tail.print();
    const CommandEnd shown = show_job(job);
    const std::string state = field_of(shown.output, "JobState");
    if (shown.status != 0 || state.empty()) {
      if (is_forgotten(shown) || ++failures > kMaxFailures)
        throw Error(ExitCode::failure, MessageCode::launch_failed,
                    "Slurm no longer lists job " + job + ": " + shortened(shown.output, 300));
      std::this_thread::sleep_for(kLookAgain);  // the controller may be starting again
      continue;
    }
    failures = 0;
    if (state != last) {
      const std::string reason = field_of(shown.output, "Reason");
      out << "-- job " << job << ": " << state
          << (reason.empty() || reason == "None" ? "" : " (" + reason + ")") << '\n'
          << std::flush;
      last = state;
    }
    if (has_ended(state)) {
      tail.print();
      const std::string code = field_of(shown.output, "ExitCode");  // "75:0", "0:9"
      const int status = std::atoi(code.c_str());
      const std::size_t colon = code.find(':');
      const int signal = colon == std::string::npos ? 0 : std::atoi(code.c_str() + colon + 1);
      return signal != 0 ? 128 + signal : status != 0 ? status : state == "COMPLETED" ? 0 : 1;
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

Study part_on_nodes(Study study, int nodes) {
  std::erase_if(study.sizes, [&](const StudySize& size) { return size.nodes != nodes; });
  return study;
}

void submit_study(const Study& study, const BatchJobOptions& job, const std::string& folder,
                  const std::string& program, Filesystem& files, std::ostream& out) {
  for (const std::string& earlier : read_jobs(files, folder)) {
    if (goes_on(earlier))
      throw ConfigError("submit", "job " + earlier + " of this study has not ended",
                        "wait for the job, or cancel it: scancel " + earlier, MessageCode::run_in_use);
  }
  make_directories(files, folder + "/jobs");
  std::vector<std::string> numbers;
  for (const StudyJob& next : missing_jobs(study, job, folder, files)) {
    const int nodes = next.requests.nodes;
    std::vector<std::string> options{"--output=" + output_of(folder, nodes)};
    if (!numbers.empty()) options.push_back("--dependency=afterany:" + numbers.back());
    const std::string path = folder + "/jobs/n" + std::to_string(nodes) + ".sbatch";
    numbers.push_back(submit_script(files, path, study_script(next.requests, program, folder), options));
    write_jobs(files, folder, numbers);
    out << "job " << numbers.back() << ": " << counted(next.trainings, "training") << " on "
        << counted(nodes, "node") << ", " << path << std::endl;
  }
  if (numbers.empty()) {
    out << "nothing is missing: `cxtrain_mpi scaling collect --from " << folder << "` writes the report\n";
  } else {
    out << "each job writes the report of what is there by then: " << folder << "/report.html\n";
  }
}

}  // namespace cxtrain
