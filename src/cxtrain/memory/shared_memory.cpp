#include "cxtrain/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

namespace cxtrain {

std::shared_ptr<SharedMemory> SharedMemory::create(std::size_t bytes) noexcept {
  FileDescriptor file(memfd_create("cxtrain", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return nullptr;
  return map(std::move(file), bytes);
}

std::shared_ptr<SharedMemory> SharedMemory::open(const Address& address) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/fd/%lld", static_cast<long long>(address.process),
                static_cast<long long>(address.file));
  FileDescriptor file(::open(path, O_RDWR | O_CLOEXEC));
  if (!file) return nullptr;
  // Process numbers of another container may mean somebody else here.
  struct stat found {};
  if (fstat(file.get(), &found) != 0 || found.st_dev != address.device || found.st_ino != address.inode ||
      static_cast<std::uint64_t>(found.st_size) != address.bytes) {
    return nullptr;
  }
  return map(std::move(file), address.bytes);
}

std::shared_ptr<SharedMemory> SharedMemory::map(FileDescriptor file, std::size_t bytes) noexcept {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return nullptr;
  return std::shared_ptr<SharedMemory>(
      new SharedMemory(std::move(file), static_cast<std::byte*>(data), bytes));
}

SharedMemory::~SharedMemory() { munmap(data_, bytes_); }

SharedMemory::Address SharedMemory::address() const noexcept {
  struct stat found {};
  fstat(file_.get(), &found);
  return {getpid(), file_.get(), found.st_dev, found.st_ino, bytes_};
}

}  // namespace cxtrain
