#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cxtrain/base/filesystem.h"

/// What a training's files of metrics had in them when its state was saved.
namespace cxtrain {

/// Whether `path` is a file that the run of its folder may have written: no link, by which somebody's folder
/// could have other files copied into a run, and of the folder's owner, this user or root.
bool is_file_of_run(Filesystem& files, const std::string& path);

/// Returns the text of a small file of a run, such as run.json. Empty if the path is no file of a run
/// (`is_file_of_run`), if the file is larger than `most` bytes, or if reading fails.
std::string text_of_run_file(Filesystem& files, const std::string& path, std::uint64_t most = 1 << 20);

/// The first `bytes` bytes of a file of a run; none of what is no such file (`is_file_of_run`). Where it is
/// shorter, or missing, what is there up to the end of the last row that is whole, and a warning. `whole`:
/// how many bytes of a text are whole rows. Throws FileError where the file cannot be read.
std::string read_saved_rows(Filesystem& files, const std::string& path, std::int64_t bytes,
                            std::size_t (*whole)(std::string_view));

/// The bytes up to the end of the last line.
std::size_t whole_lines(std::string_view text);

/// Rows that were saved are not in this file any more: said in the log.
void warn_of_missing_rows(const std::string& path);

}  // namespace cxtrain
