#include <csignal>

#include "cxtrain/base/error.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/callbacks/run_view.h"
#include "cxtrain/plugin/plugin_abi.h"

/// A callback by which one rank of a job of a certain size always fails at the same step: a broken machine,
/// or a fault in the program.
namespace {

using namespace cxtrain;

class Fragile : public Callback {
 public:
  explicit Fragile(const Arguments& arguments)
      : rank_(arguments.integer("rank")),
        ranks_(arguments.integer("ranks")),
        step_(arguments.integer("step")),
        dies_(arguments.boolean("dies")) {}

  void on_train_batch_end(RunView& run, const at::Tensor&, const Batch&, std::int64_t) override {
    if (run.rank() != rank_ || run.world_size() != ranks_ || run.global_step() != step_) return;
    if (dies_) raise(SIGKILL);
    throw TrainingError("this rank is broken");
  }

 private:
  std::int64_t rank_, ranks_, step_;
  bool dies_;
};

}  // namespace

CXTRAIN_PLUGIN("callback fragile", [](Registry& registry) {
  using Type = ArgumentSpec::Type;
  registry.add<Callback>("fragile", "fails at a step, on a rank of a job of this size",
                         {{"rank", Type::integer, "0", "which"},
                          {"ranks", Type::integer, "1", "of a job of so many"},
                          {"step", Type::integer, "1", "after it"},
                          {"dies", Type::boolean, "true", "by SIGKILL; else by an exception"}},
                         [](const Arguments& arguments) { return std::make_unique<Fragile>(arguments); });
})
