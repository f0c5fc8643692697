#include "cxtrain/memory/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <new>

namespace cxtrain {

std::shared_ptr<SharedMemory> SharedMemory::create(std::size_t bytes) noexcept {
  const int file = memfd_create("cxtrain", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    close(file);
    return nullptr;
  }
  return map(file, bytes);
}

std::shared_ptr<SharedMemory> SharedMemory::open(const Address& address) noexcept {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%lld/fd/%lld", static_cast<long long>(address.process),
                static_cast<long long>(address.file));
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  // Process numbers of another container may mean somebody else here.
  struct stat found {};
  if (fstat(file, &found) != 0 || found.st_dev != address.device || found.st_ino != address.inode ||
      static_cast<std::uint64_t>(found.st_size) != address.bytes) {
    close(file);
    return nullptr;
  }
  return map(file, address.bytes);
}

/// Takes the file over.
std::shared_ptr<SharedMemory> SharedMemory::map(int file, std::size_t bytes) noexcept {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) {
    close(file);
    return nullptr;
  }
  return std::shared_ptr<SharedMemory>(new SharedMemory(file, static_cast<std::byte*>(data), bytes));
}

SharedMemory::~SharedMemory() {
  munmap(data_, bytes_);
  close(file_);
}

SharedMemory::Address SharedMemory::address() const noexcept {
  struct stat found {};
  fstat(file_, &found);
  return {getpid(), file_, found.st_dev, found.st_ino, bytes_};
}

}  // namespace cxtrain
