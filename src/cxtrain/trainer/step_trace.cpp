#include "cxtrain/trainer/step_trace.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/log.h"
#include "cxtrain/base/phase_clock.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cluster/clock_offset.h"
#include "cxtrain/cluster/exchange.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/config/plan.h"

namespace cxtrain {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

constexpr std::int64_t kFirstTraced = 10, kTracedSteps = 5;

/// The phase in progress, which the trace shows as a range around its operations.
std::optional<at::RecordFunction>& annotation() {
  static std::optional<at::RecordFunction> of_phase;
  return of_phase;
}

void annotate(Phase phase) {
  annotation().reset();
  annotation().emplace(at::RecordScope::USER_SCOPE);
  if (annotation()->isActive()) annotation()->before(word_of(phase));
}

void enable_profiler(bool on_gpu) {
  // Without a driver Kineto complains of GPUs that nobody asked for; 5 is above all its severities.
  if (!on_gpu) setenv("KINETO_LOG_LEVEL", "5", /*overwrite=*/0);
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  std::set<ActivityType> activities{ActivityType::CPU};
  if (on_gpu) activities.insert(ActivityType::CUDA);
  kineto::prepareProfiler(config, activities);
  kineto::enableProfiler(config, activities);
}

std::unique_ptr<kineto::ProfilerResult> disable_profiler() {
  PhaseClock::observe(nullptr);
  annotation().reset();
  return kineto::disableProfiler();
}

/// Behind all threads. A device's streams come behind the network.
constexpr std::int64_t kNetworkTrack = 90'000;

std::int64_t track_of(const kineto::KinetoEvent& event) {
  constexpr std::int64_t kOfDevice = 100'000;
  if (event.deviceType() == at::kCPU) return static_cast<std::int64_t>(event.startThreadId());
  return kOfDevice * (event.deviceIndex() + 1) + event.deviceResourceId();
}

std::string track_name(const kineto::KinetoEvent& event, bool has_phases) {
  if (event.deviceType() != at::kCPU)
    return "device " + std::to_string(event.deviceIndex()) + ", stream " +
           std::to_string(event.deviceResourceId());
  return has_phases ? "training" : "thread " + std::to_string(event.startThreadId());
}

std::string_view category_of(const kineto::KinetoEvent& event) {
  if (event.deviceType() != at::kCPU) return "device";
  return event.scope() == static_cast<std::uint8_t>(at::RecordScope::USER_SCOPE) ? "phase" : "operation";
}

/// Microseconds from `origin`, in nanoseconds since 1970, to another moment.
double microseconds(std::int64_t origin, std::int64_t moment) {
  return static_cast<double>(moment - origin) / 1e3;
}

void write_travels(const std::vector<TravelLog::Travel>& travels, std::int64_t origin, TracePartFile& file) {
  if (travels.empty()) return;
  for (const TravelLog::Travel& travel : travels) {
    file.add({.name = "exchange, " + readable_bytes(static_cast<std::int64_t>(travel.bytes)),
              .category = "exchange",
              .begin = microseconds(origin, travel.begin),
              .duration = microseconds(travel.begin, travel.end),
              .track = kNetworkTrack});
  }
  file.name_track(kNetworkTrack, "network");
}

/// Writes the events; `origin`: nanoseconds since 1970 at which times begin. Returns how many there are.
std::int64_t write_events(const std::vector<kineto::KinetoEvent>& events, std::int64_t origin,
                          TracePartFile& file) {
  std::map<std::int64_t, std::string> names;
  for (const kineto::KinetoEvent& event : events) {
    const std::string_view category = category_of(event);
    const std::int64_t track = track_of(event);
    if (category == "phase" || !names.contains(track)) names[track] = track_name(event, category == "phase");
    file.add({.name = event.name(),
              .category = category,
              .begin = microseconds(origin, static_cast<std::int64_t>(event.startNs())),
              .duration = static_cast<double>(event.durationNs()) / 1e3,
              .track = track});
  }
  for (const auto& [track, name] : names) file.name_track(track, name);
  return static_cast<std::int64_t>(events.size());
}

}  // namespace

TraceWindow trace_window(std::int64_t begin, std::int64_t end) {
  TraceWindow window{begin + kFirstTraced, begin + kFirstTraced + kTracedSteps};
  if (end > 0 && end < window.end) window = {std::max(begin, end - kTracedSteps), end};
  return window;
}

StepTrace::~StepTrace() {
  if (running_) disable_profiler();
}

void StepTrace::on_train_start(Run& run) {
  window_ = trace_window(run.global_step(), steps_);
  const auto now = static_cast<std::int64_t>(seconds_since_1970() * 1e9);
  origin_ = broadcast_value(run.world(), now);
}

void StepTrace::start(Run& run) {
  enable_profiler(run.plan().accelerator == "gpu");
  running_ = true;
  travel_log_.emplace();
  PhaseClock::observe(&annotate);
}

/// Collective.
void StepTrace::stop(Run& run) {
  const std::unique_ptr<kineto::ProfilerResult> result = disable_profiler();
  const std::vector<TravelLog::Travel> travels = travel_log_->travels();
  travel_log_.reset();
  running_ = false;
  stopped_ = true;
  World& world = run.world();
  // The ranks of a node have one clock.
  ClockOffset offset;
  if (world.facts().num_nodes > 1) offset = clock_offset(world);
  part_.clock_error = world.facts().node == 0 ? 0 : offset.error;
  const std::int64_t shift = world.facts().node == 0 ? 0 : std::llround(1e9 * offset.seconds);
  try {
    TracePartFile file(run.files(), run.log_dir(), run.rank());
    part_.events = write_events(result->events(), origin_ + shift, file);
    write_travels(travels, origin_ + shift, file);
    file.close();
  } catch (const FileError& error) {
    part_.error = message_of(error);
  }
}

void StepTrace::finish(Run& run) {
  if (running_) stop(run);
  World& world = run.world();
  part_.rank = world.rank();
  part_.host = world.facts().hostname;
  if (!stopped_) part_.error = "the fit ended before step " + std::to_string(window_.first);
  std::vector<TracePart> parts = gather_values_on_root(world, part_);
  if (!world.is_root()) return;
  std::erase_if(parts, [](const TracePart& part) {
    if (part.events > 0) return false;
    log_warning("no trace of rank " + std::to_string(part.rank) + ": " + part.error);
    return true;
  });
  if (parts.empty()) return;
  try {
    merge_trace(run.files(), run.log_dir(), parts);
    log_info("trace of steps " + std::to_string(window_.first) + " to " + std::to_string(window_.end - 1) +
             ", for ui.perfetto.dev: " + run.log_dir() + "/" + kTraceFile);
  } catch (const FileError& error) {
    log_warning("no trace: " + message_of(error));
  }
}

}  // namespace cxtrain
