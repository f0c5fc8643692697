#include "cxtrain/data/find_data_file.h"

#include <cstdlib>
#include <filesystem>

#include "cxtrain/base/error.h"

namespace cxtrain {

namespace fs = std::filesystem;

std::vector<std::string> data_places(const std::string& program,
                                     const std::optional<std::string>& environment) {
  constexpr int kFoldersAbove = 5;
  std::vector<std::string> places;
  if (environment && !environment->empty()) places.push_back(*environment);
  const fs::path beside = fs::path(program).parent_path();
  fs::path folder = beside;
  for (int i = 0; i <= kFoldersAbove; ++i) {
    places.push_back((folder / ".deps" / "data").string());
    if (folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  places.push_back((beside.parent_path() / "share" / "cxtrain" / "data").string());
  return places;
}

std::string find_data_file(const std::string& name, std::span<const std::string> places) {
  std::string tried;
  for (const std::string& place : places) {
    const fs::path path = fs::path(place) / name;
    std::error_code error;
    if (fs::is_regular_file(path, error)) return path.string();
    tried += "\n  " + path.string();
  }
  throw DataError(
      "the data file '" + name + "' was asked for and found in none of these places:" + tried +
      "\nName the file with --data.path, or its folder in the environment variable CXTRAIN_DATA.");
}

std::string find_data_file(const std::string& name) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const char* environment = std::getenv("CXTRAIN_DATA");
  return find_data_file(
      name, data_places(program.string(),
                        environment != nullptr ? std::optional<std::string>(environment) : std::nullopt));
}

}  // namespace cxtrain
