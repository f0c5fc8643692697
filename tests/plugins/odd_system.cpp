#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

/// What an operating system may do to a program, for LD_PRELOAD.
///
/// CXTRAIN_TEST_HANG=FILE: while there is such a file, what is to be brought to the disk of a checkpoint does
/// not come there, as on storage that has gone away. CXTRAIN_TEST_CLOCK=1: the clock on the wall jumps by
/// years whenever somebody looks at it. CXTRAIN_TEST_SHARED=files: processes can share memory only through
/// files in /dev/shm. CXTRAIN_TEST_SHARED=little: /dev/shm has room for small files only.
/// CXTRAIN_TEST_SHARED=none: /dev/shm has no room.
namespace {

/// Whether the file is part of a checkpoint that is being written.
bool of_checkpoint(int file) {
  const std::array<char, 32> link = [&] {
    std::array<char, 32> text{"/proc/self/fd/"};
    char* end = text.data() + std::strlen(text.data());
    if (file >= 100) *end++ = static_cast<char>('0' + file / 100 % 10);
    if (file >= 10) *end++ = static_cast<char>('0' + file / 10 % 10);
    *end = static_cast<char>('0' + file % 10);
    return text;
  }();
  std::array<char, 4096> path{};
  return readlink(link.data(), path.data(), path.size() - 1) > 0 &&
         std::strstr(path.data(), ".ckpt.part") != nullptr;
}

/// How processes can share memory; empty: as the system lets them.
std::string_view sharing() {
  const char* value = std::getenv("CXTRAIN_TEST_SHARED");
  return value == nullptr ? "" : value;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int memfd_create(const char* name, unsigned flags) {
  if (sharing().empty()) return static_cast<int>(syscall(SYS_memfd_create, name, flags));
  errno = ENOSYS;
  return -1;
}

extern "C" __attribute__((visibility("default"))) int posix_fallocate(int file, off_t offset, off_t bytes) {
  constexpr off_t kSmall = 1 << 16;
  if (sharing() == "none" || (sharing() == "little" && bytes > kSmall)) return ENOSPC;
  return syscall(SYS_fallocate, file, 0, offset, bytes) == 0 ? 0 : errno;
}

extern "C" __attribute__((visibility("default"))) int fsync(int file) {
  const char* hang = std::getenv("CXTRAIN_TEST_HANG");
  while (hang != nullptr && access(hang, F_OK) == 0 && of_checkpoint(file)) usleep(1000);
  return static_cast<int>(syscall(SYS_fsync, file));
}

extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                                    timespec* time) noexcept {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (clock != CLOCK_REALTIME || std::getenv("CXTRAIN_TEST_CLOCK") == nullptr)
    return static_cast<int>(result);
  static std::atomic<int> calls{0};
  constexpr time_t kYear = 365 * 24 * 3600;
  constexpr std::array<time_t, 4> kJumps{0, 3, -7, 10};
  time->tv_sec += kJumps[static_cast<unsigned>(calls++) % kJumps.size()] * kYear;
  return static_cast<int>(result);
}
