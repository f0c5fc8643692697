#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "cxtrain/base/file_descriptor.h"
#include "cxtrain/base/process.h"
#include "cxtrain/base/sha256.h"
#include "cxtrain/doctor/probe.h"

namespace cxtrain::doctor {
namespace {

constexpr std::int64_t kWholeFile = std::int64_t{8} << 20;
constexpr std::int64_t kPart = std::int64_t{64} << 10, kParts = 64;

std::string last_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_library_of_interest(const std::string& name) {
  constexpr std::array kNames{"libcxtrain",  "libtorch",  "libc10",   "libnccl",
                              "libcudnn.so", "libcudart", "libmpi.so"};
  return std::ranges::any_of(kNames, [&](const char* prefix) { return name.starts_with(prefix); });
}

/// The files of the libraries of this process that are of interest.
std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  const auto visit = [](dl_phdr_info* info, std::size_t, void* list) {
    const std::string path = info->dlpi_name != nullptr ? info->dlpi_name : "";
    if (is_library_of_interest(last_name(path)))
      static_cast<std::vector<std::string>*>(list)->push_back(path);
    return 0;
  };
  dl_iterate_phdr(visit, &paths);
  return paths;
}

/// Adds up to `bytes` from `offset` on; false where they cannot be read.
bool add_part(Sha256& hash, int file, std::int64_t offset, std::int64_t bytes) {
  std::vector<char> buffer(static_cast<std::size_t>(kPart));
  while (bytes > 0) {
    const auto wanted = static_cast<std::size_t>(std::min(bytes, kPart));
    const ssize_t count = pread(file, buffer.data(), wanted, static_cast<off_t>(offset));
    if (count <= 0) return false;
    hash.update(buffer.data(), static_cast<std::size_t>(count));
    offset += count;
    bytes -= count;
  }
  return true;
}

}  // namespace

std::string file_fingerprint(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return "";
  const std::int64_t size = status.st_size;
  Sha256 hash;
  if (size <= kWholeFile) return add_part(hash, file.get(), 0, size) ? hash.hex_digest() : "";
  const std::string prefix = std::to_string(size);
  hash.update(prefix.data(), prefix.size());
  for (std::int64_t part = 0; part < kParts; ++part) {
    if (!add_part(hash, file.get(), (size - kPart) * part / (kParts - 1), kPart)) return "";
  }
  return hash.hex_digest();
}

void probe_program(RankFacts& facts) {
  facts.program_hash = file_fingerprint(program_path());
  for (const std::string& path : loaded_libraries()) {
    const std::string hash = file_fingerprint(path);
    if (!hash.empty()) facts.library_hashes[last_name(path)] = hash;
  }
}

}  // namespace cxtrain::doctor
