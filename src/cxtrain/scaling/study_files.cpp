#include "cxtrain/scaling/study_files.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/scaling/study_report.h"

namespace cxtrain {
namespace {

constexpr std::uint64_t kLargestStudyFile = std::uint64_t{64} << 20;
constexpr int kIndent = 2;

struct SubmittedJobs {
  std::vector<std::string> numbers;
  void fields(auto&& field) { field("jobs", numbers); }
};

std::string path_of_point(const std::string& folder, const StudyPoint& point) {
  return folder + "/" + point.folder() + "/point.json";
}

[[noreturn]] void refuse_file(const std::string& path, const std::string& why) {
  throw ConfigError("", path + ": " + why,
                    "use another folder, or remove the file; what it has measured is lost then",
                    MessageCode::invalid_file);
}

bool is_measurement_of(const Measurement& measured, const StudyPoint& point) {
  return measured.size == point.size && measured.round == point.round &&
         (measured.failed() ||
          (std::isfinite(measured.step) && measured.step > 0 && measured.samples_per_step >= 0));
}

bool is_result(const StudyResult& result) {
  return std::ranges::all_of(result.sizes, [&](const SizeResult& size) {
    return std::ranges::all_of(size.rounds, [](double step) { return std::isfinite(step) && step > 0; }) &&
           (!size.measured() || size.step.value > 0) &&
           good_rounds(result.points, size.size).size() == size.rounds.size();
  });
}

/// The struct that a file of the study holds; absent if the file is missing.
template <class Struct>
std::optional<Struct> read_file_of(Filesystem& files, const std::string& path) {
  if (!files.status(path)) return std::nullopt;
  std::optional<Struct> found = parse_struct<Struct>(read_whole_file(files, path, kLargestStudyFile));
  if (!found) refuse_file(path, "is not a file of a scaling study");
  return found;
}

template <class Struct>
void write_file_of(Filesystem& files, const std::string& path, const Struct& content) {
  write_atomically(files, path, text_of_json(json_of(content), kIndent) + "\n");
}

}  // namespace

std::unique_ptr<FileLock> take_study_folder(Filesystem& files, const std::string& folder) {
  try {
    make_directories(files, folder + "/points");
    if (!belongs_to_this_user(files, folder))
      throw ConfigError("out", "the folder " + folder + " belongs to another user", "use another folder",
                        MessageCode::unsafe_file);
    auto lock = files.try_lock(folder + "/study.lock", Filesystem::LockKind::exclusive);
    if (lock == nullptr)
      throw ConfigError("out", "another process runs the study in " + folder,
                        "wait for it, or use another folder", MessageCode::run_in_use);
    return lock;
  } catch (const FileError& error) {
    if (error.reason() == std::errc::not_supported) return nullptr;
    throw ConfigError("out", std::string("the study's folder cannot be made: ") + error.what(),
                      "use another folder", message_code_of(error));
  }
}

std::optional<Study> read_study(Filesystem& files, const std::string& folder) {
  const std::string path = folder + "/study.json";
  std::optional<Study> study = read_file_of<Study>(files, path);
  if (!study) return study;
  if (const std::string why = fault_of(*study); !why.empty()) refuse_file(path, why);
  return study;
}

void write_study(Filesystem& files, const std::string& folder, const Study& study) {
  write_file_of(files, folder + "/study.json", study);
}

std::optional<Measurement> read_point(Filesystem& files, const std::string& folder, const StudyPoint& point) {
  const std::string path = path_of_point(folder, point);
  std::optional<Measurement> measured = read_file_of<Measurement>(files, path);
  if (measured && !is_measurement_of(*measured, point))
    refuse_file(path, "is not the measurement of its folder");
  return measured;
}

void write_point(Filesystem& files, const std::string& folder, const Measurement& measurement) {
  const StudyPoint point{measurement.size, measurement.round};
  make_directories(files, folder + "/" + point.folder());
  write_file_of(files, path_of_point(folder, point), measurement);
}

std::optional<Measurement> measure_run(Filesystem& files, const std::string& folder,
                                       const StudyPoint& point) {
  const std::vector<std::string> runs = version_dirs(files, folder + "/" + point.folder());
  if (runs.empty() || !files.status(runs.front() + "/run.json")) return std::nullopt;
  try {
    return measurement_of(point, read_whole_file(files, runs.front() + "/run.json", kLargestStudyFile),
                          read_whole_file(files, runs.front() + "/profile.json", kLargestStudyFile));
  } catch (const Error& error) {
    return Measurement{.size = point.size, .round = point.round, .failure = error.what()};
  }
}

std::vector<Measurement> read_points(Filesystem& files, const std::string& folder, const Study& study) {
  std::vector<Measurement> found;
  for (const StudyPoint& point : schedule_of(study)) {
    if (const auto measured = read_point(files, folder, point)) found.push_back(*measured);
  }
  return found;
}

std::vector<std::string> read_jobs(Filesystem& files, const std::string& folder) {
  const std::string path = folder + "/jobs.json";
  const auto jobs = read_file_of<SubmittedJobs>(files, path).value_or(SubmittedJobs());
  for (const std::string& number : jobs.numbers) {
    if (!number_of_digits(number))
      throw ConfigError("", path + ": has jobs without numbers", "remove the file",
                        MessageCode::invalid_file);
  }
  return jobs.numbers;
}

void write_jobs(Filesystem& files, const std::string& folder, const std::vector<std::string>& numbers) {
  write_file_of(files, folder + "/jobs.json", SubmittedJobs{numbers});
}

StudyResult read_result(Filesystem& files, const std::string& folder) {
  auto result = read_file_of<StudyResult>(files, folder + "/scaling.json");
  if (!result)
    throw ConfigError("from", "there is no scaling.json in " + folder,
                      "run `cxtrain_mpi scaling --out " + folder + "` first", MessageCode::invalid_value);
  if (!fault_of(result->study).empty() || !is_result(*result))
    refuse_file(folder + "/scaling.json", "has a step that takes no time, or sizes that no study has");
  return *std::move(result);
}

void write_result(Filesystem& files, const std::string& folder, const StudyResult& result) {
  write_file_of(files, folder + "/scaling.json", result);
}

Network read_network(Filesystem& files, const std::string& path) {
  const auto times = read_file_of<NetworkTimes>(files, path);
  if (!times)
    throw ConfigError("--network", "there is no file " + path,
                      "write one: cxtrain_mpi scaling network --out " + path, MessageCode::invalid_value);
  Network network = network_of(*times);
  if (network.name.empty()) network.name = path;
  return network;
}

void write_network(Filesystem& files, const std::string& path, const NetworkTimes& times) {
  write_file_of(files, path, times);
}

void write_reports(Filesystem& files, const std::string& folder, const StudyResult& result) {
  write_atomically(files, folder + "/scaling.csv", to_csv(result));
  write_atomically(files, folder + "/report.md", to_markdown(result));
  write_atomically(files, folder + "/report.html", to_html(result));
}

}  // namespace cxtrain
