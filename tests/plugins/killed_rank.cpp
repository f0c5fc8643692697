#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "constant_data.h"
#include "cxtrain/plugin/plugin_abi.h"
#include "cxtrain/trainer/chain_module.h"

/// A model of which one rank sends itself a signal while it waits for the others inside a collective, or for
/// a message.
///
/// At the step that it is told, every other rank stops short of the collective and reads from a pipe of its
/// own, `wait_RANK` in `folder`, which the killed rank holds open. So the killed rank comes first and has to
/// wait, and who waits for other ranks, in a barrier of the node or in MPI, calls `sched_yield` over and
/// over. This file is loaded by LD_PRELOAD besides, so that its own `sched_yield` is the one that is called;
/// there the rank closes the pipes, which sends the others on, and strikes. The pipe `hit` tells the test.
namespace {

using namespace cxtrain;

struct Strike {
  bool due = false;
  int signal = 0;
  pid_t thread = 0;        ///< the one that talks to the other ranks
  std::vector<int> pipes;  ///< whose other ends wait for the strike
};
Strike strike;

int open_pipe(const std::string& file, int flags) {
  const int pipe = open(file.c_str(), flags | O_CLOEXEC);
  if (pipe < 0) throw std::runtime_error("cannot open " + file);
  return pipe;
}

class KilledRank : public ChainModule {
 public:
  struct Args {
    std::string folder, place = "gradients", signal = "kill";
    std::int64_t rank = 1, step = 3;

    void fields(auto&& field) {
      field("folder", folder, "where its pipes are");
      field("place", place,
            "what the killed rank waits for: the first message of a step, the sum of gradients, or an "
            "agreement",
            one_of("step", "gradients", "agreement"));
      field("signal", signal, "which signal", one_of("kill", "stop"));
      field("rank", rank, "which rank");
      field("step", step, "at which step");
    }
  };
  explicit KilledRank(const Args& args)
      : folder_(args.folder),
        place_(args.place),
        signal_(args.signal == "stop" ? SIGSTOP : SIGKILL),
        rank_(args.rank),
        step_(args.step) {
    add_block("first", torch::nn::Linear(4, 3));
    add_block("last", torch::nn::Linear(3, 1));
  }
  void on_fit_start() override {
    std::ofstream(folder_ + "/process_" + std::to_string(global_rank())) << getpid() << std::flush;
  }
  void on_train_batch_start(const Batch&, std::int64_t) override {
    if (place_ == "step") before_collective();
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor loss = run_blocks(batch).tensor().mean();
    if (place_ == "gradients") before_collective();
    return loss;
  }
  void on_train_batch_end(const StepOutput&, const Batch&, std::int64_t) override {
    if (place_ == "agreement") before_collective();
  }
  Optimizers configure_optimizers() override { return {}; }
  std::unique_ptr<DataModule> default_data() override { return std::make_unique<test::ConstantData>(); }

 private:
  /// The next thing that this rank does with others is the collective.
  void before_collective() {
    if (global_step() != step_) return;
    if (global_rank() != rank_) {
      const int pipe = open_pipe(pipe_of(global_rank()), O_RDONLY);
      char none = 0;
      static_cast<void>(read(pipe, &none, 1));  // nothing comes but the end
      close(pipe);
      return;
    }
    strike.pipes = {open_pipe(folder_ + "/hit", O_WRONLY)};
    for (int other = 0; other < world_size(); ++other) {
      if (other != rank_) strike.pipes.push_back(open_pipe(pipe_of(other), O_WRONLY));
    }
    strike.signal = signal_;
    strike.thread = gettid();
    strike.due = true;
  }
  std::string pipe_of(int rank) const { return folder_ + "/wait_" + std::to_string(rank); }

  std::string folder_, place_;
  int signal_;
  std::int64_t rank_, step_;
};

}  // namespace

extern "C" __attribute__((visibility("default"))) int sched_yield() noexcept {
  if (strike.due && gettid() == strike.thread) {
    strike.due = false;
    for (const int pipe : strike.pipes) close(pipe);
    raise(strike.signal);
  }
  return static_cast<int>(syscall(SYS_sched_yield));
}

CXTRAIN_PLUGIN("model killed_rank", [](Registry& registry) {
  registry.add<KilledRank>("killed_rank", "a rank of it is killed or stopped inside a collective");
})
