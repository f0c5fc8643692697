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
  explicit Slow(const Arguments& arguments)
      : longer_(arguments.integer("ms")), until_(arguments.text("until")) {}

  void on_train_batch_end(RunView&, const at::Tensor&, const Batch&, std::int64_t) override {
    if (until_.empty() || access(until_.c_str(), F_OK) != 0) std::this_thread::sleep_for(longer_);
  }

 private:
  std::chrono::milliseconds longer_;
  std::string until_;
};

}  // namespace

CXTRAIN_PLUGIN("callback slow", [](Registry& registry) {
  using Type = ArgumentSpec::Type;
  registry.add<Callback>("slow", "makes every step take longer",
                         {{"ms", Type::integer, "20", "by so much"},
                          {"until", Type::text, "", "until this file exists (empty: always)"}},
                         [](const Arguments& arguments) { return std::make_unique<Slow>(arguments); });
})
