#include "cxtrain/cluster/flight_recorder.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "cxtrain/base/process.h"

namespace cxtrain {
void FlightRecorder::begin(const char* operation, bool counts) noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::uint64_t place = begun_.load(relaxed), number = number_.load(relaxed) + (counts ? 1 : 0);
  Slot& slot = slots_[place % kKept];
  slot.end.store(0, relaxed);
  slot.begin.store(clock_.now(), relaxed);
  slot.operation.store(operation, relaxed);
  slot.number.store(number, relaxed);
  slot.step.store(CurrentStep::get(), relaxed);
  number_.store(number, relaxed);
  begun_.store(place + 1, std::memory_order_release);
}

void FlightRecorder::end() noexcept {
  constexpr auto relaxed = std::memory_order_relaxed;
  Slot& slot = slots_[(begun_.load(relaxed) - 1) % kKept];
  const Ticks begin = slot.begin.load(relaxed), end = std::max(clock_.now(), begin);
  slot.end.store(end, relaxed);
  waited_.store(waited_.load(relaxed) + (end - begin), relaxed);
  last_end_.store(end, relaxed);
}

std::vector<FlightRecorder::Entry> FlightRecorder::entries() const {
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::uint64_t begun = begun_.load(std::memory_order_acquire);
  std::vector<Entry> entries;
  for (std::uint64_t back = 1; back <= std::min<std::uint64_t>(begun, kKept); ++back) {
    const Slot& slot = slots_[(begun - back) % kKept];
    const Ticks begin = slot.begin.load(relaxed), end = slot.end.load(relaxed);
    const Ticks until = end != 0 ? end : clock_.now();
    entries.push_back({slot.number.load(relaxed), slot.operation.load(relaxed), slot.step.load(relaxed),
                       clock_.seconds(until > begin ? until - begin : 0), end == 0});
  }
  return entries;
}

std::string FlightRecorder::text() const {
  std::ostringstream out;
  out << "this rank's last waits for other ranks, the newest first:\n" << std::fixed << std::setprecision(6);
  for (const Entry& entry : entries()) {
    out << "  number " << entry.number;
    if (entry.step >= 0) out << ", step " << entry.step;
    out << ", " << entry.operation << (entry.goes_on ? ": has waited for " : ": ") << entry.seconds << " s\n";
  }
  std::string text = out.str();
  text.pop_back();
  return text;
}

}  // namespace cxtrain
