#include "cxtrain/comm/node/node_barrier.h"

#include <sched.h>

#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/device/resources.h"

namespace cxtrain {
namespace {

SharedWindow require_window(std::optional<SharedWindow> window) {
  if (window) return std::move(*window);
  throw CommunicationError("no shared memory left on this node for a barrier; free some in /dev/shm");
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace

NodeBarrier::NodeBarrier(const MpiComm& node_comm)
    : window_(require_window(SharedWindow::allocate(node_comm, sizeof(Counter)))),
      counter_(reinterpret_cast<Counter*>(window_.segments()[0])),
      ranks_(static_cast<std::uint64_t>(node_comm.size())),
      watchdog_(node_comm.watchdog()) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
  // Ranks bound to a core each count one core apiece here; unbound ones see all. Where there are more ranks
  // than cores somebody has to sleep for another to arrive, and spinning only delays that.
  const int cores = cores_of_this_process();
  spins_before_yield_ = cores == 1 || node_comm.size() <= cores ? 20000 : 20;
}

void NodeBarrier::wait(const char* operation) {
  const Watchdog::Wait wait(watchdog_, operation);  // also where nobody waits: ranks count alike
  const std::uint64_t goal = ++generation_ * ranks_;
  if (counter_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 >= goal) return;
  for (int spin = 0; spin < spins_before_yield_; ++spin) {
    if (counter_->arrived.load(std::memory_order_acquire) >= goal) return;
    pause_briefly();
  }
  while (counter_->arrived.load(std::memory_order_acquire) < goal) sched_yield();
}

}  // namespace cxtrain
