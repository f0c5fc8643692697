#include "cxtrain/cluster/watchdog.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "cxtrain/base/stop_signals.h"

namespace cxtrain {
namespace {

constexpr int kTick = 100;  // ms
/// ms, after each look at the extra poll.
constexpr int kRest = 5;
/// What one tick may count for: anything beyond is time in which this process did not run.
constexpr double kMaxPerTick = 1;
/// Less than a tick: Open MPI 5 leaves a rank a quarter of a second between SIGTERM and SIGKILL (Open MPI 4:
/// one second).
constexpr double kAfterSignal = 0.05;
/// Set in `waits_` while the watchdog raises an alarm: the wait does not end then.
constexpr std::uint64_t kHeld = std::uint64_t{1} << 63;

bool waiting(std::uint64_t waits) { return waits % 2 == 1; }

}  // namespace

Watchdog::Watchdog(double timeout_seconds, Alarm alarm, ExtraPoll extra_poll)
    : alarm_(std::move(alarm)),
      extra_poll_(std::move(extra_poll)),
      wake_(eventfd(0, EFD_CLOEXEC)),
      timeout_seconds_(timeout_seconds),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

Watchdog::~Watchdog() {
  thread_.request_stop();
  const std::uint64_t one = 1;
  static_cast<void>(write(wake_.get(), &one, sizeof one));
}

Watchdog::Wait::Wait(Watchdog& watchdog, const char* operation, Of of) noexcept
    : watchdog_(watchdog),
      number_(watchdog.waits_.load(std::memory_order_relaxed)),
      inside_another_(waiting(number_)) {
  if (inside_another_) return;
  ++number_;
  watchdog_.recorder_.begin(operation, of == Of::all_ranks);
  watchdog_.of_some_ranks_.store(of == Of::some_ranks, std::memory_order_relaxed);
  watchdog_.operation_.store(operation, std::memory_order_relaxed);
  watchdog_.waits_.store(number_, std::memory_order_release);
}

Watchdog::Wait::~Wait() {
  if (inside_another_) return;
  for (std::uint64_t expected = number_;
       !watchdog_.waits_.compare_exchange_weak(expected, number_ + 1, std::memory_order_acq_rel);
       expected = number_) {
    if (expected != number_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  watchdog_.recorder_.end();
}

Watchdog::WaitInfo Watchdog::of_wait() const noexcept {
  return {.operation = operation_.load(std::memory_order_relaxed),
          .number = recorder_.number(),
          .of_some_ranks = of_some_ranks_.load(std::memory_order_relaxed)};
}

void Watchdog::alarm(Cause cause, std::uint64_t wait, double seconds) {
  std::uint64_t expected = wait;
  if (!waits_.compare_exchange_strong(expected, wait | kHeld, std::memory_order_acq_rel)) return;  // over
  wait_of_alarm_ = of_wait();
  alarm_(cause, wait_of_alarm_.operation, seconds);
  waits_.store(wait, std::memory_order_release);
}

void Watchdog::watch(PendingWork& work) {
  const std::lock_guard lock(pending_mutex_);
  pending_.push_back({&work});
}

void Watchdog::forget(PendingWork& work) noexcept {
  const std::lock_guard lock(pending_mutex_);
  std::erase_if(pending_, [&](const Pending& pending) { return pending.work == &work; });
}

std::string Watchdog::record() {
  std::string text = recorder_.text();
  const std::lock_guard lock(pending_mutex_);
  for (const Pending& pending : pending_) {
    if (pending.operation == nullptr) continue;
    text += "\n  a device works on number " + std::to_string(pending.number) + ", " + pending.operation +
            ", for about " + std::to_string(pending.seconds) + " s";
  }
  return text;
}

Watchdog::WaitInfo Watchdog::look_at_pending(double tick) {
  const std::lock_guard lock(pending_mutex_);
  WaitInfo wait;
  for (Pending& pending : pending_) {
    const PendingWork::State state = pending.work->look();
    wait_of_alarm_ = {.operation = state.operation, .number = state.number, .of_watched_work = true};
    if (!state.error.empty()) alarm_(Cause::error, state.error.c_str(), pending.seconds);
    const bool same = state.operation != nullptr && state.number == pending.number;
    pending.number = state.number;
    pending.operation = state.operation;
    pending.seconds = same ? pending.seconds + tick : 0;
    if (state.operation != nullptr) wait = wait_of_alarm_;
    if (pending.seconds > timeout_seconds_.load()) {
      alarm_(Cause::deadline, state.operation, pending.seconds);
      pending.seconds = 0;
    }
  }
  return wait;
}

void Watchdog::run(const std::stop_token& stop) {
  using Steady = std::chrono::steady_clock;
  Steady::time_point last = Steady::now();
  std::uint64_t wait = 0;
  double waited = 0, since_signal = 0;
  bool signal_told = false, rests = false;
  while (!stop.stop_requested()) {
    // -1 is ignored. Messages of strangers come without an end, if they like: they get a small part of a
    // core.
    pollfd sources[] = {{wake_.get(), POLLIN, 0}, {rests ? -1 : extra_poll_.descriptor, POLLIN, 0}};
    poll(sources, 2, rests ? kRest : kTick);
    rests = sources[1].revents != 0;
    const Steady::time_point now = Steady::now();
    const double tick = std::min(std::chrono::duration<double>(now - last).count(), kMaxPerTick);
    last = now;
    const WaitInfo pending = look_at_pending(tick);
    const std::uint64_t waits = waits_.load(std::memory_order_acquire);
    if (sources[1].revents != 0) {
      WaitInfo own = of_wait();
      if (!waiting(waits)) own = {.number = own.number};
      extra_poll_.work(own.operation == nullptr && pending.operation != nullptr ? pending : own);
    }
    if (!waiting(waits) || waits != wait) {
      wait = waits;
      waited = since_signal = 0;
      continue;
    }
    waited += tick;
    const bool signalled = StopSignals::received() != 0;
    since_signal = signalled ? since_signal + tick : 0;
    if (!signalled) signal_told = false;
    if (since_signal > kAfterSignal && !signal_told) {
      signal_told = true;
      alarm(Cause::signal, wait, waited);
    } else if (waited > timeout_seconds_.load()) {
      alarm(Cause::deadline, wait, waited);
      waited = 0;
    }
  }
}

}  // namespace cxtrain
