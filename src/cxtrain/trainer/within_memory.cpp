#include "cxtrain/trainer/within_memory.h"

#include <c10/util/Exception.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <stdexcept>

#include "cxtrain/base/error.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/text.h"
#include "cxtrain/device/resources.h"
#include "cxtrain/strategy/keep_ranges.h"
#include "cxtrain/tensor/shapes_only.h"

namespace cxtrain {
namespace {

/// While it lives, the process gets no more private memory than there was when it was made.
class MemoryLimit {
 public:
  MemoryLimit() {
    const auto available = static_cast<std::uint64_t>(available_memory_bytes());
    const auto used = static_cast<std::uint64_t>(data_bytes());
    if (getrlimit(RLIMIT_DATA, &before_) != 0) return;
    rlimit limit = before_;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, used + available);
    limited_ = limit.rlim_cur < before_.rlim_cur && setrlimit(RLIMIT_DATA, &limit) == 0;
  }
  ~MemoryLimit() {
    if (limited_) setrlimit(RLIMIT_DATA, &before_);
  }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
  bool limited_ = false;
};

std::string gibibytes(double bytes) { return formatted("%.3g GiB", bytes / (1 << 30)); }

[[noreturn]] void refuse(const std::string& what, const std::string& message, const std::string& asked) {
  throw ConfigError(what, message, asked.empty() ? "" : "use smaller sizes than " + asked,
                    MessageCode::out_of_memory);
}

[[noreturn]] void refuse_size(const std::string& what, const std::string& asked) {
  refuse(what,
         "needs more memory than this machine has left (" +
             gibibytes(static_cast<double>(available_memory_bytes())) + " of " +
             gibibytes(static_cast<double>(total_memory_bytes())) + "), or has an invalid size",
         asked);
}

}  // namespace

void build_within_memory(const std::string& what, const std::string& asked,
                         const std::function<void()>& build) {
  try {
    const MemoryLimit limit;
    build();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    if (message.find("allocate memory") != std::string::npos) refuse_size(what, asked);
    refuse(what, "cannot be built with its arguments: " + shortened(message, 1000), "");
  } catch (const std::bad_alloc&) {
    refuse_size(what, asked);
  } catch (const std::length_error&) {
    refuse_size(what, asked);
  }
}

std::string arguments_text(const std::string& prefix, const std::map<std::string, std::string>& arguments) {
  return joined(arguments, ", ", [&](const auto& each) { return prefix + each.first + "=" + each.second; });
}

void require_memory_to_train(const RankMemory& needed, int ranks) {
  const auto gradients = static_cast<double>(needed.gradients), state = static_cast<double>(needed.optimizer);
  const double total = gradients + state;
  const double of_machine = static_cast<double>(available_memory_bytes()) / ranks;
  rlimit limit{};
  const bool limited = getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const double of_process =
      limited ? static_cast<double>(limit.rlim_cur) - static_cast<double>(data_bytes()) : of_machine;
  const double left = std::max(0.0, std::min(of_machine, of_process));
  const std::string text = "training takes " + gibibytes(total) +
                           " on each rank beside the parameters and activations (gradients " +
                           gibibytes(gradients) + ", the optimizer's state " + gibibytes(state) + ")";
  log_detail(text + "; a rank can have " + gibibytes(left) + ", a process has taken " +
             std::to_string(data_bytes()) + " bytes");
  if (total <= left) return;
  throw ConfigError("trainer.strategy", text + ", and a rank can have " + gibibytes(left),
                    "divide it among more ranks with --strategy zero, or the layers with --strategy pipeline "
                    "(docs/larger_models.md)",
                    MessageCode::out_of_memory);
}

void require_memory_for(const std::string& options, double parameters) {
  if (ShapesOnly::active() || KeepRanges::current() != nullptr) return;
  const double bytes = parameters * 2 * sizeof(float), have = static_cast<double>(total_memory_bytes());
  if (bytes <= have) return;
  throw ConfigError(options,
                    formatted("%.3g", parameters) + " parameters and their gradients need " +
                        gibibytes(bytes) + ", and this machine has " + gibibytes(have),
                    "make the model smaller", MessageCode::out_of_memory);
}

}  // namespace cxtrain
