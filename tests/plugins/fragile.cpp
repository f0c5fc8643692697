#include <csignal>

#include "cxtrain/base/error.h"
#include "cxtrain/callbacks/callback.h"
#include "cxtrain/callbacks/run.h"
#include "cxtrain/plugin/plugin_abi.h"

/// A callback by which one rank of a job of a certain size always fails at the same checkpoint, before it is
/// written, and when the checkpoint before is complete: a broken machine, or a fault in the program.
namespace {

using namespace cxtrain;

class Fragile : public Callback {
 public:
  struct Args {
    std::int64_t rank = 0, ranks = 1, step = 1;
    bool dies = true;

    void fields(auto&& field) {
      field("rank", rank, "which");
      field("ranks", ranks, "of a job of so many");
      field("step", step, "at the checkpoint after it");
      field("dies", dies, "by SIGKILL; else by an exception");
    }
  };
  explicit Fragile(const Args& args)
      : rank_(args.rank), ranks_(args.ranks), step_(args.step), dies_(args.dies) {}

  void on_checkpoint(Run& run, const StateDict&) override {
    if (run.rank() != rank_ || run.world().size() != ranks_ || run.global_step() != step_) return;
    if (dies_) raise(SIGKILL);
    throw TrainingError("this rank is broken");
  }

 private:
  std::int64_t rank_, ranks_, step_;
  bool dies_;
};

}  // namespace

CXTRAIN_PLUGIN("callback fragile", [](Registry& registry) {
  registry.add<Fragile>("fragile", "fails at a step, on a rank of a job of this size");
})
