#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/linear.h>
#include <unistd.h>

#include <limits>
#include <map>
#include <sstream>

#include "checkpoint/weights_support.h"
#include "config/resolve_support.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/process.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/checkpoint/load_weights.h"
#include "cxtrain/checkpoint/manifest.h"
#include "cxtrain/checkpoint/weights.h"
#include "cxtrain/cli/checkpoint_command.h"
#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/help.h"
#include "cxtrain/cli/report_command.h"
#include "cxtrain/comm/solo_communicator.h"
#include "cxtrain/data/digits_dataset.h"
#include "cxtrain/data/idx_dataset.h"
#include "cxtrain/device/hardware.h"
#include "cxtrain/plugin/loader.h"
#include "cxtrain/report/run_lock.h"
#include "cxtrain/state/state_dict.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/setting.h"
#include "support/without_blocks.h"

// The words of messages are compared here and nowhere else: other words for a message are a change of its
// row. Other tests compare its code and its values (support/error_text.h).
namespace cxtrain::test {
namespace {

/// What `throws` throws, as the program prints it.
struct Message {
  std::function<void()> throws;
  std::string printed;
};

void check(const std::vector<Message>& rows) {
  for (const Message& row : rows) CHECK(error_of(row.throws) == row.printed);
}

/// Reads this command line, with these files.
std::function<void()> words(std::vector<const char*> arguments,
                            std::map<std::string, std::string> files = {}) {
  return [arguments = std::move(arguments), files = std::move(files)] {
    parse_command_line(arguments, [&](const std::string& path) -> std::optional<std::string> {
      const auto file = files.find(path);
      return file == files.end() ? std::nullopt : std::optional(file->second);
    });
  };
}

/// Resolves these options on a machine of so many GPUs.
std::function<void()> plans(const std::function<void(Options&)>& change, int gpus = 0,
                            const WorldFacts& launched = {}, int cores = 32) {
  return [=] {
    Options options;
    change(options);
    const Plan plan = testing::resolve(options, testing::machine(gpus, cores), launched);
    if (!plan.ok()) throw ConfigError(plan.errors);
  };
}

/// Trains for a few steps.
template <class Model>
std::function<void()> trains(const std::function<void(Options&)>& change = [](Options&) {}) {
  return [=] {
    Setting setting;
    change(setting.options);
    ToyData data(32, 8);
    Model model;
    setting.fit(model, data);
  };
}

class VectorLoss : public Regression {
  StepOutput training_step(const Batch& batch, std::int64_t) override { return batch[0].sum(1); }
};

class InfiniteLoss : public Regression {
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    return loss(batch) * std::numeric_limits<double>::infinity();
  }
};

class LogsTooEarly : public Regression {
  void on_fit_start() override { log("too_early", 1.0); }
};

class LogsAStep : public Regression {
  void on_train_epoch_end() override { log("no_step", 1.0, {.on_step = true}); }
};

TEST_CASE("what a wrong command line is answered with", "[messages]") {
  check({
      {words({"--max_epoch=3"}),
       "--max_epoch: there is no such option (did you mean --max_epochs?) [unknown-option]"},
      {words({"paln"}), "--paln: there is no such subcommand (did you mean plan?) [unknown-option]"},
      {words({"fit", "more"}),
       "--more: this word belongs to no option (values follow their option: --key value) [unknown-option]"},
      {words({"max_epochs=3"}),
       "max_epochs=3: options start with two hyphens (did you mean --max_epochs=3?) [unknown-option]"},
      {words({"--max_epochs"}), "--max_epochs: a value is missing (write --max_epochs=N) [missing-value]"},
      {words({"--max_epochs=many"}), "--max_epochs: 'many' is not a whole number [invalid-value]"},
      {words({"--max_time=1h"}),
       "--max_time: '1h' is not a time of the form DD:HH:MM:SS (a day and a half: 01:12:00:00) "
       "[invalid-value]"},
      {words({"--gradient_clip_algorithm=nrom"}),
       "--gradient_clip_algorithm: 'nrom' is none of norm, value (did you mean norm?) [invalid-value]"},
      {words({"--weights_save_path=/a", "--checkpoint.dirpath=/b"}),
       "--weights_save_path: is an older name of checkpoint.dirpath, and both were given (keep "
       "checkpoint.dirpath) [conflicting-options]"},
      {words({"--plugins=x"}),
       "--plugins: is an argument of Lightning's that does not exist here (use --precision and --strategy, "
       "or "
       "--plugin FILE for a plugin of your own) [unsupported-option]"},
      {words({"--profiler=simpel"}),
       "--profiler: 'simpel' is none of simple, trace (did you mean simple?) [invalid-value]"},
      {words({"--profiler=advanced"}),
       "--profiler: 'advanced' profiles Python's functions, which do not exist here; simple measures the "
       "phases of a step, trace records the operations of a few steps [invalid-value]"},
      {words({"--config=no.yaml"}),
       "--config: the file no.yaml cannot be read (check the path and its permissions) [invalid-file]"},
      {words({"--config=a.yaml"}, {{"a.yaml", "- 1\n"}}),
       "a.yaml line 1: the file is not a map of options (`trainer:`, `model:` ...) [invalid-file]"},
      {words({"--config=a.yaml"}, {{"a.yaml", "seed: 1\nseed: 2\n"}}),
       "a.yaml line 2: seed: is given twice (keep one) [conflicting-options]"},
      {words({"--config=a.yaml"}, {{"a.yaml", "seed: 1\n---\nseed: 2\n"}}),
       "a.yaml line 2: a second document begins here (put all options into one, or into several files) "
       "[invalid-file]"},
      {words({"--max_epoch=3", "--seed=-1"}),
       "2 problems\n  --max_epoch: there is no such option (did you mean --max_epochs?) [unknown-option]\n  "
       "--seed: '-1' is not a whole number from 0 on [invalid-value]"},
  });
}

TEST_CASE("what options that cannot be carried out are answered with", "[messages]") {
  using testing::under_mpirun;
  check({
      {plans([](Options& o) { o.trainer.gpus = "0,5"; }, 2),
       "--gpus: GPU 5 was asked for, but 2 are visible (indices 0 to 1) (node n1 has 2 GPUs) [no-device]"},
      {plans([](Options& o) { o.trainer.gpus = "2"; }),
       "--gpus: gpus=2 was asked for, but no GPU is visible: node n1 has 0 GPUs (drop --gpus to train on the "
       "CPU) [no-device]"},
      {plans([](Options& o) { o.trainer.accelerator = "gup"; }),
       "--accelerator: 'gup' is none of auto, cpu, gpu, cuda (did you mean gpu?) [unknown-name]"},
      {plans([](Options& o) { o.trainer.devices = "2"; }, 0, under_mpirun({4})),
       "--devices: 2 devices per node asked for, but mpirun started 4 ranks (start it as `mpirun -np 2 "
       "cxtrain_mpi ...`, or drop --devices) [wrong-ranks]"},
      {plans([](Options& o) { o.trainer.num_nodes = 2; }, 0, under_mpirun({4})),
       "--num_nodes: 2 nodes asked for, but mpirun started ranks on 1 node (start it as `mpirun -np 8 "
       "--map-by ppr:4:node cxtrain_mpi ...`, or drop --num_nodes) [wrong-ranks]"},
      {plans([](Options& o) { o.trainer.strategy = "single"; }, 0, under_mpirun({4})),
       "--strategy: single is one process, but mpirun started 4: they would be 4 unrelated trainings (use "
       "--strategy ddp, or start the program without mpirun) [wrong-ranks]"},
      {plans([](Options& o) { o.trainer.devices = "17"; }, 0, {}, 2),
       "--devices: 17 processes share 2 cores, and that is too many: the most is 16 (8 for each core, 16 at "
       "least) (use --devices 2; `mpirun --oversubscribe -np 17` starts them anyway) [out-of-range]"},
      {plans([](Options& o) { o.trainer.max_epochs = -2; }),
       "--max_epochs: -2 is less than -1 (-1 means no limit) [out-of-range]"},
      {plans([](Options& o) { o.trainer.precision = "17"; }),
       "--precision: '17' is not a precision; use 16, bf16, 32, 64 or 32-true, 16-mixed, bf16-mixed, "
       "64-true, 16-true, bf16-true [unknown-name]"},
      {plans([](Options& o) { o.trainer.use_amp = true, o.trainer.precision = "32"; }),
       "--use_amp: use_amp=true contradicts precision=32 (write --precision 16-mixed) [conflicting-options]"},
      {plans([](Options& o) { o.trainer.strategy = "DDP"; }),
       "--strategy: there is no strategy 'DDP' (did you mean ddp?) [unknown-name]"},
      {plans([](Options& o) {
         o.trainer.strategy = "ddp", o.strategy.args = {{"bucket_bytes", "-1"}};
       }),
       "--strategy.bucket_bytes: '-1' is less than 0 [out-of-range]"},
  });
}

TEST_CASE("what checkpoints and files of weights are refused with", "[messages]") {
  FaultyFilesystem files;
  files.make_directory("/folder");
  put_file(files, "/short", "short");
  put_file(files, "/w.safetensors",
           safetensors_of({{"weight", at::arange(6, at::kFloat)}, {"more", at::arange(1)}}));
  torch::nn::Linear linear(3, 2);
  std::ostringstream out;
  check({
      {[&] { read_manifest(files, "/nothing"); }, "there is no checkpoint '/nothing' [checkpoint-missing]"},
      {[&] { read_manifest(files, "/folder"); },
       "'/folder' is not a checkpoint: it lacks manifest.json [checkpoint-missing]"},
      {[&] { open_weights(files, "/none"); },
       "there is no file or folder '/none'; check the path [checkpoint-missing]"},
      {[&] { SafetensorsFile(files, "/short"); },
       "'/short' is damaged or no safetensors file: it has only 5 bytes; fetch or write it again "
       "[bad-checkpoint]"},
      {[&] { load_weights(*linear, "/w.safetensors", NameMap(), files); },
       "the weights in '/w.safetensors' do not fit the model:\n  missing in the file (1): bias\n  not in the "
       "model (1): more\n  of another shape (1): weight: Float [6] in the file, Float [2, 3] in the model\n  "
       "choose the model's arguments as they were, rename with --model.weights_map FROM=TO, or load a part: "
       "--model.weights_prefix PREFIX, --model.weights_strict false [model-mismatch]"},
      {[&] { NameMap::parse("model."); },
       "'model.' is not of the form FROM=TO; examples: model.= or encoder.=net.encoder. [invalid-value]"},
      {[&] { StateDict().integer("count"); }, "the saved state lacks count [bad-state]"},
      {[&] {
         run_checkpoint_command(std::vector{"inspekt", "/a"}, files, out);
       },
       "checkpoint: there is no action 'inspekt' (did you mean inspect?) [unknown-option]"},
  });
}

TEST_CASE("what data, plugins, runs and machines are refused with", "[messages]") {
  const TempDir dir;
  const std::string images =
      dir.write("images", std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x03\0\0\0\x03", 16));
  const std::string digits = dir.write("digits.csv", "1,2,3\n");
  const std::string plugins = CXTRAIN_TEST_PLUGIN_DIR;
  Registry registry;
  PluginLoader loader(registry, {"/nonexistent"});
  FaultyFilesystem files;
  files.make_directory("/run");
  const auto lock = take_run_folder(files, "/run", 0);
  std::ostringstream out;
  check({
      {[&] { read_idx(images, images); },
       "'" + images +
           "' is truncated: its header promises 18 bytes of images, it has 0; fetch it again [bad-data]"},
      {[&] { read_digits(digits); },
       "'" + digits +
           "' is not a file of digits: in line 1, it has 3 values instead of 65; each line is 64 "
           "pixels from 0 to 16 and a label from 0 to 9, separated by commas [bad-data]"},
      {[&] { loader.load("/none.so"); }, "plugin /none.so: no such file [plugin-failed]"},
      {[&] { loader.load(plugins + "/no_symbol.so"); },
       "plugin " + plugins +
           "/no_symbol.so: has no symbol cxtrain_plugin_v1; it is not a cxtrain plugin, or one for another "
           "major version [plugin-failed]"},
      {[&] { loader.require("strategy", "ddp"); },
       "there is no strategy `ddp`; found: none\n  looked in /nonexistent [unknown-name]"},
      {[&] { take_run_folder(files, "/run", 0); },
       "the run's folder '/run' is in use: process " + std::to_string(getpid()) + " on " + hostname() +
           " writes there (wait for its end or stop it; or start a run of its own, without --ckpt_path last "
           "or auto) [run-in-use]"},
      {[&] { run_report_command(std::vector{"/nothing"}, files, 0, out); },
       "report: there is no run in '/nothing' (name a run's folder (.../cxtrain_logs/version_N), or the "
       "default_root_dir above it) [file-failed]"},
      {[&] { completion_script("fish", {}); },
       "completion: 'fish' is neither bash nor zsh (write completion bash, or completion zsh) "
       "[unknown-name]"},
      {[&] { parse_hardware(R"({"nodes":[{"cores":"many"}]})", "hw.json"); },
       "hardware file hw.json: nodes[0].cores: expected a whole number, found \"many\" [invalid-file]"},
      {[&] { throw FileError("write", "/f", ENOSPC); },
       "cannot write '/f': No space left on device; make room on its disk, raise the quota, or name a folder "
       "on another disk [file-failed]"},
  });
}

TEST_CASE("what a training ends with", "[messages]") {
  SoloCommunicator alone;
  check({
      {trains<VectorLoss>(),
       "training_step must return the loss as one number, got a tensor of shape [8]; reduce it with .mean() "
       "[bad-loss]"},
      {trains<InfiniteLoss>([](Options& o) { o.trainer.terminate_on_nan = true; }),
       "the loss is inf (trainer.terminate_on_nan); --detect_anomaly true finds the operation that makes it "
       "[not-finite]"},
      {trains<test::WithoutBlocks>([](Options& o) { o.trainer.recompute_blocks = true; }),
       "--recompute_blocks: needs a model in blocks, and this one has none (derive the model "
       "from cxtrain::ChainModule or cxtrain::BlockModule) [conflicting-options]"},
      {trains<LogsTooEarly>(),
       "log(\"too_early\") in on_fit_start: nothing can be logged there, since no row of metrics follows; "
       "log it in a step, or at the end of an epoch [log-misuse]"},
      {trains<LogsAStep>(),
       "log(\"no_step\") in on_train_epoch_end: the hook belongs to no step; leave out on_step [log-misuse]"},
      {trains<Regression>([](Options& o) { o.trainer.limit_train_batches = {0.01}; }),
       "--limit_train_batches: 0.01 of 4 batches is less than one: 0.01 * 4 = 0.04 (use "
       "--limit_train_batches 0.25 or more, or 1 for one batch; 0 for none) [out-of-range]"},
      {[&] { alone.broadcast(at::zeros({2}), 1); }, "broadcast: there is no rank 1 among 1 [bad-tensor]"},
  });
}

}  // namespace
}  // namespace cxtrain::test
