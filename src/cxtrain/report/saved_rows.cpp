#include "cxtrain/report/saved_rows.h"

#include <algorithm>

#include "cxtrain/base/log.h"

namespace cxtrain {

bool is_file_of_run(Filesystem& files, const std::string& path) {
  const auto file = files.own_status(path), folder = files.status(parent_directory(path));
  return file && folder && file->is_file &&
         (file->owner == folder->owner || belongs_to_this_user(files, path));
}

std::string text_of_run_file(Filesystem& files, const std::string& path, std::uint64_t most) {
  try {
    return is_file_of_run(files, path) ? read_whole_file(files, path, most) : std::string();
  } catch (const FileError&) {
    return {};
  }
}

std::string read_saved_rows(Filesystem& files, const std::string& path, std::int64_t bytes,
                            std::size_t (*whole)(std::string_view)) {
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 0));
  std::string rows;
  if (is_file_of_run(files, path)) {
    const std::unique_ptr<ReadableFile> file = files.open(path);
    rows.resize(std::min<std::size_t>(wanted, file->size()));
    rows.resize(file->read(0, rows));
  }
  rows.resize(whole(rows));
  if (rows.size() < wanted) warn_of_missing_rows(path);
  return rows;
}

std::size_t whole_lines(std::string_view text) {
  const std::size_t last = text.rfind('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

void warn_of_missing_rows(const std::string& path) {
  log_warning("'" + path +
              "' lacks rows that the training had written when its state was saved: has something deleted or "
              "changed the file, or has the machine crashed? The training continues without them");
}

}  // namespace cxtrain
