#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace cxtrain {

/// Notes when this rank exchanges arrays with other nodes, for a trace. While a TravelLog lives, the couriers
/// of the process write to the log. Without a TravelLog a courier only compares a pointer, once for each
/// exchange. Any thread may call the static methods.
class TravelLog {
 public:
  /// Times are in nanoseconds since 1970.
  struct Travel {
    std::int64_t begin, end;
    std::size_t bytes;  ///< of the array, as it travels
  };

  /// At most one TravelLog lives.
  TravelLog();
  ~TravelLog();
  TravelLog(const TravelLog&) = delete;
  TravelLog& operator=(const TravelLog&) = delete;

  /// Returns the exchanges that have ended, in the order of their ends.
  std::vector<Travel> travels() const;

  /// Returns the time, in nanoseconds since 1970; 0 without a TravelLog.
  static std::int64_t begin() noexcept;
  /// Notes an exchange that ends now. `begin`: what `begin` has returned; 0 is ignored.
  static void end(std::int64_t begin, std::size_t bytes);

 private:
  static std::atomic<TravelLog*> running_;
  static std::mutex mutex_;  ///< guards the `travels_` of the log, and its end

  std::vector<Travel> travels_;
};

}  // namespace cxtrain
