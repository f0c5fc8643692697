#include "cxtrain/comm/node/node_barrier.h"

#include <sched.h>

#include <climits>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/device/resources.h"

namespace cxtrain {
namespace {

SharedWindow require_window(std::optional<SharedWindow> window) {
  if (window) return std::move(*window);
  throw CommunicationError("no shared memory left on this node for a barrier; free some in /dev/shm",
                           MessageCode::out_of_memory);
}

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// Open MPI's setting for ranks that share their cores with others.
bool told_to_yield() {
  const char* text = std::getenv("OMPI_MCA_mpi_yield_when_idle");
  const std::string_view value = text == nullptr ? "" : text;
  return !value.empty() && value != "0" && value != "false" && value != "no";
}

}  // namespace

NodeBarrier::NodeBarrier(const MpiComm& node_comm)
    : window_(require_window(SharedWindow::allocate(node_comm, sizeof(Counter)))),
      counter_(reinterpret_cast<Counter*>(window_.segment(0))),
      ranks_(static_cast<std::uint64_t>(node_comm.size())),
      watchdog_(node_comm.watchdog()) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");
  // Ranks bound to a core each count one core apiece here; unbound ones see all. Where there are more ranks
  // than cores somebody has to sleep for another to arrive, and spinning only delays that.
  const int cores = cores_of_this_process();
  const bool enough_cores = cores == 1 || node_comm.size() <= cores;
  patience_ = told_to_yield() ? Patience{20, 0}
              : enough_cores  ? Patience{20000, INT_MAX}
                              : Patience{20, kFewYields};
}

void NodeBarrier::arrive() {
  const std::uint64_t goal = ++generation_ * ranks_;
  if (counter_->arrived.fetch_add(1) + 1 >= goal) counter_->bell.ring();
}

void NodeBarrier::finish(const char* operation) {
  const Watchdog::Wait wait(watchdog_, operation);  // also where nobody waits: ranks count alike
  const std::uint64_t goal = generation_ * ranks_;
  for (int spin = 0; spin < patience_.spins; ++spin) {
    if (counter_->arrived.load(std::memory_order_acquire) >= goal) return;
    pause_briefly();
  }
  for (int yield = 0; yield < patience_.yields; ++yield) {
    if (counter_->arrived.load(std::memory_order_acquire) >= goal) return;
    sched_yield();
  }
  counter_->bell.sleep_until([&] { return counter_->arrived.load() >= goal; });
}

}  // namespace cxtrain
