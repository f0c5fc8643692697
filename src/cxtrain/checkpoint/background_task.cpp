#include "cxtrain/checkpoint/background_task.h"

#include <c10/util/ScopeExit.h>
#include <pthread.h>

#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/error.h"

namespace cxtrain {

void BackgroundTask::start(std::function<void(const std::function<bool()>& go_on)> work) {
  wait();
  done_ = false;
  wanted_ = true;
  error_.clear();
  seconds_ = 0;
  // Signals are for the thread that runs the loop: threads that are made meanwhile get none.
  sigset_t all{}, before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto blocked = c10::make_scope_exit([&before] { pthread_sigmask(SIG_SETMASK, &before, nullptr); });
  try {
    thread_ = std::thread([this, work = std::move(work)] {
      const SteadyClock clock;
      const double began = clock.now();
      try {
        work([this] { return wanted_.load(); });
      } catch (const std::exception& error) {
        error_ = message_of(error);
      } catch (...) {
        error_ = message_of_other_exception();
      }
      seconds_ = clock.now() - began;
      done_ = true;
    });
  } catch (const std::system_error& error) {
    error_ = std::string("no thread can be started: ") + error.what();
    done_ = true;
  }
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
