#include "cxtrain/base/current_step.h"

#include <atomic>

namespace cxtrain {
namespace {

std::atomic<std::int64_t> current_step{-1};
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "read by signals' handlers");

}  // namespace

void CurrentStep::set(std::int64_t step) noexcept { current_step.store(step, std::memory_order_relaxed); }
std::int64_t CurrentStep::get() noexcept { return current_step.load(std::memory_order_relaxed); }

}  // namespace cxtrain
