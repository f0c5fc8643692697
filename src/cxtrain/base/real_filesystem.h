#pragma once

#include "cxtrain/base/filesystem.h"

namespace cxtrain {

/// The files of the operating system. It has no state: any two are the same, and any thread may use one.
class RealFilesystem final : public Filesystem {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path) override;
  std::unique_ptr<WritableFile> append_to(const std::string& path) override;
  std::unique_ptr<ReadableFile> open(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove(const std::string& path) override;
  bool make_directory(const std::string& path) override;
  std::vector<std::string> list(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  std::optional<Status> status(const std::string& path) override;
  std::uint64_t free_bytes(const std::string& path) override;
};

/// For the outermost callers (main, what a Trainer uses by default); everybody else is handed a Filesystem&.
Filesystem& real_filesystem();

}  // namespace cxtrain
