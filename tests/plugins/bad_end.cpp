#include <cstdio>
#include <cstdlib>
#include <thread>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/plugin/plugin_abi.h"

/// A callback that does nothing but read stdin, if it is told to, in a library that crashes when its static
/// objects are destroyed.
namespace {

struct BadEnd {
  ~BadEnd() { std::abort(); }
} bad_end;

class Idle : public cxtrain::Callback {
 public:
  explicit Idle(bool reads) {
    if (reads) std::thread([] { static_cast<void>(std::getchar()); }).detach();
  }
};

}  // namespace

CXTRAIN_PLUGIN("callback bad_end", [](cxtrain::Registry& registry) {
  registry.add<cxtrain::Callback>(
      "bad_end", "does nothing",
      {{"reads", cxtrain::ArgumentSpec::Type::boolean, "false", "stdin, in a thread of its own"}},
      [](const cxtrain::Arguments& arguments) { return std::make_unique<Idle>(arguments.boolean("reads")); });
})
