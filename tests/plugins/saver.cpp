#include <cstdio>
#include <fstream>
#include <stdexcept>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/plugin/plugin_abi.h"

/// A callback that stands for one that writes checkpoints: the step of the last one is in the file `saved` of
/// the run's folder, written in a file beside and renamed.
namespace {

using namespace cxtrain;

class Saver : public Callback {
 public:
  void on_checkpoint(Run& run, const StateDict& state) override {
    if (run.rank() != 0) return;
    const std::string path = run.log_dir() + "/saved";
    std::ofstream(path + ".part") << state.section("loop").integer("global_step") << ' '
                                  << run.progress().ends_with_checkpoint << '\n';
    if (std::rename((path + ".part").c_str(), path.c_str()) != 0) throw std::runtime_error("cannot save");
    run.saved_checkpoints().add(0.001);
  }
};

}  // namespace

CXTRAIN_PLUGIN("callback saver", [](Registry& registry) {
  registry.add<Saver>("saver", "writes down the step of a checkpoint");
})
