#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/scaling/analysis.h"
#include "cxtrain/scaling/network_measurement.h"
#include "cxtrain/scaling/prediction.h"

/// The folder of a study: study.json, points/, scaling.json and the reports.
namespace cxtrain {

/// Makes the folder if it is missing and takes it for this process, until the result is destroyed. Null if
/// the file system has no locks. Throws ConfigError if another process has it, or there cannot be a folder.
std::unique_ptr<FileLock> take_study_folder(Filesystem& files, const std::string& folder);

/// Reads study.json; absent if the folder has none. Throws ConfigError for a file that is something else.
std::optional<Study> read_study(Filesystem& files, const std::string& folder);
void write_study(Filesystem& files, const std::string& folder, const Study& study);

/// Reads what a point has measured; absent if it has not been measured.
std::optional<Measurement> read_point(Filesystem& files, const std::string& folder, const StudyPoint& point);
void write_point(Filesystem& files, const std::string& folder, const Measurement& measurement);

/// Returns what the newest run in a point's folder has measured; absent if no run has ended there.
std::optional<Measurement> measure_run(Filesystem& files, const std::string& folder, const StudyPoint& point);

/// Reads all points of the study that are there.
std::vector<Measurement> read_points(Filesystem& files, const std::string& folder, const Study& study);

/// Reads the numbers of the Slurm jobs that were submitted for the study; none if there is no jobs.json.
std::vector<std::string> read_jobs(Filesystem& files, const std::string& folder);
void write_jobs(Filesystem& files, const std::string& folder, const std::vector<std::string>& numbers);

/// Reads scaling.json. Throws ConfigError if it is missing or something else.
StudyResult read_result(Filesystem& files, const std::string& folder);
/// Writes scaling.json.
void write_result(Filesystem& files, const std::string& folder, const StudyResult& result);
/// Reads the network of a network.json, by the name in the file, or by the path. Throws ConfigError.
Network read_network(Filesystem& files, const std::string& path);
/// Writes a network.json.
void write_network(Filesystem& files, const std::string& path, const NetworkTimes& times);
/// Writes scaling.csv, report.md and report.html.
void write_reports(Filesystem& files, const std::string& folder, const StudyResult& result);

}  // namespace cxtrain
