#include "cxtrain/report/run_files.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "cxtrain/base/error.h"
#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/report/run_lock.h"

namespace cxtrain {
namespace {

constexpr std::string_view kPrefix = "version_";

/// N of "version_N"; nothing for another name. As they are made, and not as others could write the same
/// number (version_00), or one that leaves no room for the next.
std::optional<std::int64_t> version_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  constexpr std::size_t kMaxDigits = 18;
  const std::string_view digits = std::string_view(name).substr(kPrefix.size());
  if (digits.size() > kMaxDigits || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
  return number_of_digits(digits);
}

/// One more than the highest version among `names`; higher ones than anybody comes to by counting are left
/// out, so that there is always a next one that `version_of` takes.
std::int64_t next_version(std::span<const std::string> names) {
  constexpr std::int64_t kHighest = 1'000'000'000'000'000;
  std::int64_t next = 0;
  for (const std::string& name : names) {
    const std::int64_t version = version_of(name).value_or(-1);
    if (version < kHighest) next = std::max(next, version + 1);
  }
  return next;
}

std::string logs_of(const std::string& default_root_dir) {
  return (std::filesystem::path(default_root_dir) / "cxtrain_logs").string();
}

}  // namespace

std::string to_json(const RunSummary& summary) { return text_of_json(json_of(summary), 2) + "\n"; }

std::optional<RunSummary> parse_summary(std::string_view text) { return parse_struct<RunSummary>(text); }

std::string make_version_dir(Filesystem& files, const std::string& default_root_dir) {
  const std::string logs = logs_of(default_root_dir);
  try {
    make_directories(files, logs);
    for (std::int64_t version = next_version(files.list(logs));; ++version) {
      const std::string path = logs + "/" + std::string(kPrefix) + std::to_string(version);
      // Another run may have made it in the meantime.
      if (!files.make_directory(path)) continue;
      files.sync_directory(logs);
      return path;
    }
  } catch (const FileError& error) {
    throw ConfigError(
        "trainer.default_root_dir",
        "the run's folder '" + error.path() + "' cannot be created: " + error.reason().message(),
        "name a folder that you may write to", MessageCode::file_failed);
  }
}

std::vector<std::string> version_dirs(Filesystem& files, const std::string& default_root_dir) {
  const std::string logs = logs_of(default_root_dir);
  const std::optional<Filesystem::Status> status = files.status(logs);
  if (!status || !status->is_directory) return {};
  std::map<std::int64_t, std::string, std::greater<>> newest_first;
  for (const std::string& name : files.list(logs)) {
    if (const auto version = version_of(name)) newest_first[*version] = logs + "/" + name;
  }
  return transformed(newest_first, [](const auto& run) { return run.second; });
}

std::unique_ptr<FileLock> reopen_run_dir(Filesystem& files, const std::string& path, double patience) {
  try {
    make_directories(files, path);
    return take_run_folder(files, path, patience);
  } catch (const FileError& error) {
    throw ConfigError("ckpt_path",
                      "the run cannot continue in its folder '" + path + "': " + error.reason().message() +
                          " (" + error.path() + ")",
                      "name a checkpoint's path, which is resumed in a new folder", MessageCode::file_failed);
  }
}

void remove_end_of_run(Filesystem& files, const std::string& path) {
  for (const char* name : {"/run.json", "/progress.json"}) {
    if (files.status(path + name)) files.remove(path + name);
  }
}

}  // namespace cxtrain
