#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "cxtrain/base/text.h"
#include "cxtrain/doctor/check_support.h"

/// The disks that the run reads and writes.
namespace cxtrain::doctor {
namespace {

/// Bytes. A checkpoint of a model with 100 million parameters and Adam's state has 1.2 GB.
constexpr double kLeastFree = 1e9, kLittleFree = 10e9;
/// Bytes a second; such a checkpoint then takes a minute.
constexpr double kSlowWrites = 20e6;
/// Bytes that launchers and MPI need for their sessions.
constexpr std::int64_t kTmpFree = 100 * kMiB;

bool is_in_memory(const std::string& filesystem) { return filesystem == "tmpfs" || filesystem == "ramfs"; }

const FolderFacts* output_of(const NodeFacts& node) { return node.output ? &*node.output : nullptr; }
const FolderFacts* data_of(const NodeFacts& node) {
  return node.data && !node.data->path.empty() ? &*node.data : nullptr;
}

/// Asks `judge` about a folder on every node: words where it is wrong, empty where it is not, absent where
/// that is not known.
using JudgeFolder = std::function<std::optional<std::string>(const FolderFacts&)>;
FindingsCollector judge_folders(const Recording& world, const FolderFacts* (*folder_of)(const NodeFacts&),
                                const JudgeFolder& judge) {
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    const FolderFacts* folder = folder_of(node);
    const auto words = folder == nullptr ? std::nullopt : judge(*folder);
    if (!words) continue;
    collector.judge(words->empty() ? "" : folder->path + " " + *words, node);
  }
  return collector;
}

Findings find_unwritable_output(const Recording& world) {
  const auto judge = [](const FolderFacts& folder) -> std::optional<std::string> {
    if (!folder.writable) return std::nullopt;
    return *folder.writable ? "" : "cannot be written";
  };
  return judge_folders(world, output_of, judge)
      .result(Severity::error, "choose another --default_root_dir, or have its owner changed",
              "whether the output folder can be written");
}

Findings find_full_output(const Recording& world) {
  double least = kLittleFree;
  const auto judge = [&](const FolderFacts& folder) -> std::optional<std::string> {
    if (!folder.free_bytes) return std::nullopt;
    const auto room = static_cast<double>(*folder.free_bytes);
    least = std::min(least, room);
    return room < kLittleFree ? "has " + bytes_text(room) + " free" : "";
  };
  const FindingsCollector collector = judge_folders(world, output_of, judge);
  return collector.result(
      least < kLeastFree ? Severity::error : Severity::warning,
      "remove old runs, keep fewer checkpoints (--checkpoint.save_top_k 1), or choose another "
      "--default_root_dir",
      "the room on the output's disk");
}

Findings find_slow_output(const Recording& world) {
  const auto judge = [](const FolderFacts& folder) -> std::optional<std::string> {
    if (!folder.write_bytes_per_second) return std::nullopt;
    if (*folder.write_bytes_per_second >= kSlowWrites) return "";
    return "is written at " + bytes_text(*folder.write_bytes_per_second) + "/s";
  };
  return judge_folders(world, output_of, judge)
      .result(Severity::warning, "choose a faster --default_root_dir, or save less often",
              "how fast the output folder is written");
}

Findings find_output_in_memory(const Recording& world) {
  const auto judge = [](const FolderFacts& folder) -> std::optional<std::string> {
    if (folder.filesystem.empty()) return std::nullopt;
    return is_in_memory(folder.filesystem) ? "is in memory (" + folder.filesystem + ")" : "";
  };
  return judge_folders(world, output_of, judge)
      .result(Severity::warning, "choose a --default_root_dir on a disk", "the output's file system");
}

Findings find_local_output(const Recording& world) {
  const auto judge = [](const FolderFacts& folder) -> std::optional<std::string> {
    if (!folder.sees_root) return std::nullopt;
    return *folder.sees_root ? "" : "is another folder than on the first node";
  };
  return judge_folders(world, output_of, judge)
      .result(Severity::error, "choose a --default_root_dir that all nodes share",
              "whether the nodes share the output folder");
}

Findings find_unreadable_data(const Recording& world) {
  const auto judge = [](const FolderFacts& folder) -> std::optional<std::string> {
    if (folder.exists && !*folder.exists) return "is not there";
    if (folder.readable && !*folder.readable) return "cannot be read";
    return folder.readable ? std::optional<std::string>("") : std::nullopt;
  };
  if (std::ranges::none_of(world.nodes, data_of)) return {};
  return judge_folders(world, data_of, judge)
      .result(Severity::error, "copy the data to every node, or choose a --data.path that all nodes share",
              "whether the data can be read");
}

Findings find_slow_data(const Recording& world) {
  constexpr std::array kSlow{"fuse", "cifs", "smb2", "9p"};
  const auto judge = [&](const FolderFacts& folder) -> std::optional<std::string> {
    if (folder.filesystem.empty()) return std::nullopt;
    const bool slow = std::ranges::find(kSlow, folder.filesystem) != kSlow.end();
    return slow ? "is on " + folder.filesystem : "";
  };
  if (std::ranges::none_of(world.nodes, data_of)) return {};
  return judge_folders(world, data_of, judge)
      .result(Severity::warning, "copy the data to a disk of the node before the run",
              "the data's file system");
}

/// A path that is one thing on some nodes and another on others: mounted here, a bare folder there.
Findings find_unlike_data(const Recording& world) {
  std::map<std::string, std::vector<std::string>> hosts;
  for (const NodeFacts& node : world.nodes) {
    const FolderFacts* data = data_of(node);
    if (data != nullptr && !data->filesystem.empty()) hosts[data->filesystem].push_back(node.host);
  }
  if (hosts.size() < 2) return {};
  return warning("the data is on " + groups_text(hosts), "mount the data's file system on all nodes");
}

Findings find_full_tmp(const Recording& world) {
  FindingsCollector collector;
  for (const NodeFacts& node : world.nodes) {
    if (!node.tmp_free) continue;
    collector.judge(
        *node.tmp_free < kTmpFree,
        "the folder of temporary files has " + bytes_text(static_cast<double>(*node.tmp_free)) + " free",
        node);
  }
  return collector.result(Severity::warning, "remove left-over files there, or set TMPDIR",
                          "the room for temporary files");
}

Findings find_missing_image_formats(const Recording& world) {
  if (!world.job.image_formats) return not_known("which image files the build reads");
  const auto has = [&](const char* format) {
    return std::ranges::count(*world.job.image_formats, format) > 0;
  };
  std::vector<std::string> missing, packages;
  if (!has("JPEG")) missing.emplace_back("JPEG"), packages.emplace_back("libjpeg-dev");
  if (!has("PNG")) missing.emplace_back("PNG"), packages.emplace_back("libpng-dev");
  if (missing.empty()) return {};
  return note("this build does not read " + joined(missing, " and ") + " files",
              "for data of such files install " + joined(packages, " and ") + ", and build cxtrain again");
}

Findings find_unwritable_places(const Recording& world) {
  if (!world.job.unwritable) return not_known("whether all places of the output can be written");
  if (world.job.unwritable->empty()) return {};
  return warning("cannot be written: " + hosts_text(*world.job.unwritable),
                 "name another folder, or have its owner changed");
}

Findings find_checkpoint(const Recording& world) {
  if (world.job.resume_from.empty()) return {};
  return note("a resumed run (--ckpt_path last) begins at " + world.job.resume_from);
}

Findings find_damaged_checkpoints(const Recording& world) {
  if (!world.job.damaged) return not_known("whether there are damaged checkpoints");
  if (world.job.damaged->empty()) return {};
  return warning("damaged: " + hosts_text(*world.job.damaged),
                 "cxtrain_mpi checkpoint verify PATH names the damage; remove them");
}

}  // namespace

std::vector<Check> folder_checks() {
  return {
      {"output.writable", "The output folder cannot be written", "Nothing of the run would be kept.",
       find_unwritable_output},
      {"output.places", "A place of the output cannot be written", "The training would resume without it.",
       find_unwritable_places},
      {"output.free", "Little room for the output", "A checkpoint that does not fit ends the run.",
       find_full_output},
      {"output.slow", "The output folder is slow", "The next checkpoint waits for the one before it.",
       find_slow_output},
      {"output.memory", "The output is written to memory",
       "It takes memory from the training, and is gone with the job or the machine.", find_output_in_memory},
      {"output.shared", "The nodes do not share the output folder",
       "Every node writes its part of a checkpoint. A checkpoint is complete only if all parts are in one "
       "folder.",
       find_local_output, has_several_nodes},
      {"data.readable", "The data cannot be read", "The rank ends at its start, and the job with it.",
       find_unreadable_data},
      {"data.slow", "The data is on a slow file system",
       "Data workers then wait for the disk at every batch.", find_slow_data},
      {"data.place", "The data's path leads to different file systems",
       "On some nodes it may be an empty or an old copy.", find_unlike_data},
      {"data.images", "The build lacks a decoder of images", "--data image_folders rejects such files.",
       find_missing_image_formats},
      {"tmp.free", "Little room for temporary files", "Launchers and MPI keep their sessions there.",
       find_full_tmp},
      {"resume.found", "There is a run to resume", "A resumed run begins where it ended.", find_checkpoint},
      {"resume.damaged", "There are damaged checkpoints", "A resumed run falls back to an older one.",
       find_damaged_checkpoints},
  };
}

}  // namespace cxtrain::doctor
