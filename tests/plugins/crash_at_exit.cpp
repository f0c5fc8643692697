#include <cstdio>
#include <cstdlib>
#include <thread>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/plugin/plugin_abi.h"

/// A callback that does nothing but read stdin, if it is told to, in a library that crashes when its static
/// objects are destroyed.
namespace {

struct CrashAtExit {
  ~CrashAtExit() { std::abort(); }
} crash_at_exit;

class Idle : public cxtrain::Callback {
 public:
  struct Args {
    bool reads = false;

    void fields(auto&& field) { field("reads", reads, "stdin, in a thread of its own"); }
  };
  explicit Idle(const Args& args) {
    if (args.reads) std::thread([] { static_cast<void>(std::getchar()); }).detach();
  }
};

}  // namespace

CXTRAIN_PLUGIN("callback crash_at_exit",
               [](cxtrain::Registry& registry) { registry.add<Idle>("crash_at_exit", "does nothing"); })
