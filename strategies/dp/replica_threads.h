#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace cxtrain {

/// One thread for each replica of a process, kept for as long as the replicas are; the first replica's is the
/// caller's own. Each runs with its replica's device as the current one and with the caller's thread-local
/// state of LibTorch (gradient mode, inference mode, autocast, profiler). On the CPU the threads share the
/// caller's intra-op threads between them, at least one each. Nobody spins while waiting.
class ReplicaThreads {
 public:
  /// Throws ConfigError where the threads cannot be had.
  explicit ReplicaThreads(std::vector<at::Device> devices);
  ~ReplicaThreads();
  ReplicaThreads(const ReplicaThreads&) = delete;
  ReplicaThreads& operator=(const ReplicaThreads&) = delete;

  std::size_t size() const { return devices_.size(); }
  at::Device device(std::size_t replica) const { return devices_[replica]; }

  /// Runs `work(i)` for every i below `count` at once, on thread i, and returns when all have ended, by
  /// return or by exception. Then throws the error of the lowest replica that failed, as an Error with its
  /// exit status whose message begins with the replica.
  void run(std::size_t count, const std::function<void(std::size_t)>& work);
  /// The same, one after the other, thread 0 first.
  void run_in_turns(std::size_t count, const std::function<void(std::size_t)>& work);

 private:
  struct Job;
  void stop();
  void serve(std::size_t replica);
  void perform(const Job& job, std::size_t replica);
  [[noreturn]] void rethrow(std::size_t replica) const;

  std::vector<at::Device> devices_;
  int intra_op_threads_;  ///< of each replica
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  const Job* job_ = nullptr;      ///< the one that runs
  std::uint64_t generation_ = 0;  ///< of jobs
  std::size_t running_ = 0;       ///< threads that have not ended theirs
  bool stop_ = false;
  std::vector<std::exception_ptr> errors_;  ///< of each replica, in the job that ran last
  std::vector<std::thread> threads_;        ///< replica i + 1's; last: they use the members above
};

}  // namespace cxtrain
