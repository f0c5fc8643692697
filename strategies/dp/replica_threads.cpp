#include "replica_threads.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "cxtrain/base/error.h"

namespace cxtrain {

struct ReplicaThreads::Job {
  std::size_t count;
  const std::function<void(std::size_t)>& work;
  at::ThreadLocalState state;  // the caller's
};

ReplicaThreads::ReplicaThreads(std::vector<at::Device> devices)
    : devices_(std::move(devices)),
      intra_op_threads_(std::max(1, at::get_num_threads() / static_cast<int>(devices_.size()))),
      errors_(devices_.size()) {
  try {
    for (std::size_t replica = 1; replica < devices_.size(); ++replica) {
      threads_.emplace_back([this, replica] { serve(replica); });
    }
  } catch (const std::system_error& error) {
    const std::size_t started = threads_.size();
    stop();  // a thread that is not joined would end the process
    throw ConfigError("trainer.devices",
                      std::to_string(devices_.size()) + " replicas need a thread each, and only " +
                          std::to_string(started) + " can be started: " + error.code().message(),
                      "ask for fewer devices, or raise the limits (ulimit -u, ulimit -v)",
                      MessageCode::out_of_memory);
  }
}

ReplicaThreads::~ReplicaThreads() { stop(); }

void ReplicaThreads::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  begin_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ReplicaThreads::run(std::size_t count, const std::function<void(std::size_t)>& work) {
  if (count == 0) return;
  const Job job{count, work, {}};
  std::ranges::fill(errors_, nullptr);
  {
    // The caller's intra-op threads, cut down to one replica's share meanwhile.
    const int before = at::get_num_threads();
    const bool changed = intra_op_threads_ != before;
    if (changed) at::set_num_threads(intra_op_threads_);
    const auto share = c10::make_scope_exit([before, changed] {
      if (changed) at::set_num_threads(before);
    });
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      running_ = threads_.size();
      ++generation_;
    }
    begin_.notify_all();
    perform(job, 0);
    std::unique_lock lock(mutex_);
    end_.wait(lock, [this] { return running_ == 0; });
  }
  for (std::size_t replica = 0; replica < count; ++replica) {
    if (errors_[replica]) rethrow(replica);
  }
}

void ReplicaThreads::run_in_turns(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::mutex mutex;
  std::condition_variable next;
  std::size_t turn = 0;
  run(count, [&](std::size_t replica) {
    std::unique_lock lock(mutex);
    next.wait(lock, [&] { return turn == replica; });
    const auto pass_on = c10::make_scope_exit([&] {
      ++turn;
      next.notify_all();
    });
    work(replica);
  });
}

void ReplicaThreads::serve(std::size_t replica) {
  at::set_num_threads(intra_op_threads_);
  for (std::uint64_t seen = 0;;) {
    const Job* job = nullptr;
    {
      std::unique_lock lock(mutex_);
      begin_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      job = job_;
    }
    perform(*job, replica);
    {
      const std::lock_guard lock(mutex_);
      --running_;
    }
    end_.notify_one();
  }
}

void ReplicaThreads::perform(const Job& job, std::size_t replica) {
  if (replica >= job.count) return;
  try {
    const at::ThreadLocalStateGuard state(job.state);
    c10::OptionalDeviceGuard device;
    if (!devices_[replica].is_cpu()) device.reset_device(devices_[replica]);
    job.work(replica);
  } catch (...) {
    errors_[replica] = std::current_exception();
  }
}

void ReplicaThreads::rethrow(std::size_t replica) const {
  const std::string who = "replica " + std::to_string(replica) + " of " + std::to_string(size()) + " (" +
                          devices_[replica].str() + "): ";
  try {
    std::rethrow_exception(errors_[replica]);
  } catch (const ConfigError&) {
    throw;  // about what was asked for, which all replicas share
  } catch (const Error& error) {
    throw Error(error.code(), error.message_code(), who + error.what());
  } catch (const std::exception& error) {
    throw TrainingError(who + message_of(error));
  }
}

}  // namespace cxtrain
