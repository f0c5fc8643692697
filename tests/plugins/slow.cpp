#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/plugin/plugin_abi.h"

/// A callback by which every step takes so much longer, until a file exists, and trains the same.
namespace {

using namespace cxtrain;

class Slow : public Callback {
 public:
  struct Args {
    std::int64_t ms = 20;
    std::string until;

    void fields(auto&& field) {
      field("ms", ms, "by so much");
      field("until", until, "until this file exists (empty: always)");
    }
  };
  explicit Slow(const Args& args) : longer_(args.ms), until_(args.until) {}

  void on_train_batch_end(Run&, const StepOutput&, const Batch&, std::int64_t) override {
    if (until_.empty() || access(until_.c_str(), F_OK) != 0) std::this_thread::sleep_for(longer_);
  }

 private:
  std::chrono::milliseconds longer_;
  std::string until_;
};

}  // namespace

CXTRAIN_PLUGIN("callback slow",
               [](Registry& registry) { registry.add<Slow>("slow", "makes every step take longer"); })
