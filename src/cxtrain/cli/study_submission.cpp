#include "cxtrain/cli/study_submission.h"

#include <algorithm>
#include <ostream>
#include <set>
#include <vector>

#include "cxtrain/base/counted.h"
#include "cxtrain/base/error.h"
#include "cxtrain/cli/slurm_script.h"
#include "cxtrain/cli/slurm_submission.h"
#include "cxtrain/scaling/study_files.h"

namespace cxtrain {
namespace {

/// A job with the trainings of one number of nodes.
struct StudyJob {
  BatchJobOptions requests;
  std::size_t trainings = 0;  ///< that are missing
};

std::size_t missing_of(const Study& study, const std::string& folder, Filesystem& files) {
  const std::vector<StudyPoint> points = schedule_of(study);
  return static_cast<std::size_t>(std::count_if(points.begin(), points.end(), [&](const StudyPoint& point) {
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
