#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace cxtrain {

/// Work on a thread of its own, one at a time. Used by one thread.
class BackgroundTask {
 public:
  BackgroundTask() = default;
  /// Asks the work to end early, and waits for it.
  ~BackgroundTask() { stop(); }
  BackgroundTask(const BackgroundTask&) = delete;
  BackgroundTask& operator=(const BackgroundTask&) = delete;

  /// `work` is handed a question that it asks now and then: whether to go on. Nothing else may run.
  void start(std::function<void(const std::function<bool()>& go_on)> work);
  /// Whether it still works. Never waits.
  bool busy() const { return thread_.joinable() && !done_; }
  /// How long the work took, once it has ended.
  double seconds() const { return seconds_; }
  /// Waits for its end.
  void wait();
  /// The same; returns what it threw, as a message, or "" where it threw nothing.
  std::string finish();
  /// The same, and has the work end early.
  void stop();

 private:
  std::thread thread_;
  std::atomic<bool> done_{false}, wanted_{true};
  std::string error_;
  double seconds_ = 0;
};

}  // namespace cxtrain
