#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cxtrain/cluster/watchdog.h"

namespace cxtrain {

/// The operations of a stream that have not ended yet, oldest first, for the watchdog to look at. One thread
/// adds to it, another looks.
class StreamWork final : public PendingWork {
 public:
  /// `find_error` says what has gone wrong in the background, and nothing while all is well; it waits for
  /// nothing and is called by the thread that looks. The watchdog outlives this.
  StreamWork(Watchdog& watchdog, std::function<std::string()> find_error);
  ~StreamWork() override;
  StreamWork(const StreamWork&) = delete;
  StreamWork& operator=(const StreamWork&) = delete;

  /// An operation was added to the stream, and is its newest. `name`: a literal.
  void submitted(const char* name, const c10::Stream& stream);
  State look() noexcept override;

 private:
  struct Operation {
    const char* name;
    std::uint64_t number;
    c10::Event end;
  };

  Watchdog& watchdog_;
  std::function<std::string()> find_error_;
  std::mutex mutex_;
  std::deque<Operation> operations_;
  std::vector<c10::Event> spare_;
  std::uint64_t count_ = 0;
};

}  // namespace cxtrain
