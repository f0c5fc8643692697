#include <chrono>
#include <thread>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/plugin/plugin_abi.h"

/// A callback by which every step takes so much longer, and trains the same.
namespace {

using namespace cxtrain;

class Slow : public Callback {
 public:
  explicit Slow(const Arguments& arguments) : longer_(arguments.integer("ms")) {}

  void on_train_batch_end(RunView&, const at::Tensor&, const Batch&, std::int64_t) override {
    std::this_thread::sleep_for(longer_);
  }

 private:
  std::chrono::milliseconds longer_;
};

}  // namespace

CXTRAIN_PLUGIN("callback slow", [](Registry& registry) {
  using Type = ArgumentSpec::Type;
  registry.add<Callback>("slow", "makes every step take longer", {{"ms", Type::integer, "20", "by so much"}},
                         [](const Arguments& arguments) { return std::make_unique<Slow>(arguments); });
})
