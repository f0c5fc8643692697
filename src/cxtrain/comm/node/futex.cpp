#include "cxtrain/comm/node/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace cxtrain {

// Not FUTEX_PRIVATE: the word is other processes', too.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value, int milliseconds) {
  const timespec time{milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, milliseconds < 0 ? nullptr : &time, nullptr, 0);
}

void wake_all(const std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace cxtrain
