#include "cxtrain/checkpoint/background_task.h"

#include <pthread.h>

#include <csignal>

#include "cxtrain/base/error.h"

namespace cxtrain {

void BackgroundTask::start(std::function<void(const std::function<bool()>& go_on)> work) {
  done_ = false;
  wanted_ = true;
  error_.clear();
  // Signals are for the thread that runs the loop.
  sigset_t all{}, before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this, work = std::move(work)] {
    try {
      work([this] { return wanted_.load(); });
    } catch (const std::exception& error) {
      error_ = message_of(error);
    } catch (...) {
      error_ = "an exception that is no std::exception was thrown";
    }
    done_ = true;
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void BackgroundTask::wait() {
  if (thread_.joinable()) thread_.join();
}

std::string BackgroundTask::finish() {
  wait();
  return error_;
}

void BackgroundTask::stop() {
  wanted_ = false;
  wait();
}

}  // namespace cxtrain
