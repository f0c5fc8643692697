#include "cxtrain/callbacks/model_checkpoint.h"

#include <unistd.h>
#include <filesystem>

#include "cxtrain/base/error.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/faulty_filesystem.h"
#include "support/setting.h"
#include "support/skip.h"

/// When checkpoints are written, and which ones stay.
namespace cxtrain {
namespace {

using test::ToyData;
using Names = std::vector<std::string>;

/// Logs these scores, one for each epoch, as `score`.
class Scored : public test::Regression {
 public:
  explicit Scored(std::vector<double> scores = {}) : scores_(std::move(scores)) {}
  void validation_step(const Batch& batch, std::int64_t) override {
    if (scores_.empty()) return;
    log("score", scores_[static_cast<std::size_t>(current_epoch())], {.batch_size = batch.size});
  }

 private:
  std::vector<double> scores_;
};

struct CheckpointSetting : test::Setting {
  ToyData data{32, 8, 8};  // four steps an epoch

  CheckpointSetting() { options.trainer.max_epochs = 5; }
  Names names(const std::string& folder) const {
    Names found;
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
      found.push_back(entry.path().filename().string());
    std::sort(found.begin(), found.end());
    return found;
  }
  Names names() const { return names(dir.path() + "/cxtrain_logs/version_0/checkpoints"); }
  Names after_fit(std::map<std::string, std::string> arguments, std::vector<double> scores = {}) {
    options.checkpoint.args = std::move(arguments);
    Scored model(std::move(scores));
    fit(model, data);
    return names();
  }
};

TEST_CASE("a fit keeps the last epoch's checkpoint unless told otherwise", "[checkpoint]") {
  CheckpointSetting setting;
  SECTION("by itself") { CHECK(setting.after_fit({}) == Names{"epoch=4-step=20.ckpt"}); }
  SECTION("none") {
    setting.options.trainer.enable_checkpointing = false;
    CHECK(setting.after_fit({}).empty());
  }
  SECTION("none without files") {
    setting.options.trainer.logger = false;
    setting.after_fit({});
    CHECK_FALSE(std::filesystem::exists(setting.dir.path() + "/cxtrain_logs"));
  }
  SECTION("none in a trial of everything") {
    setting.options.trainer.fast_dev_run = 2;
    CHECK(setting.after_fit({}).empty());
  }
  SECTION("all") {
    CHECK(setting.after_fit({{"save_top_k", "-1"}, {"every_n_epochs", "2"}}) ==
          Names{"epoch=1-step=8.ckpt", "epoch=3-step=16.ckpt"});
  }
  SECTION("by steps") {
    CHECK(setting.after_fit({{"save_top_k", "-1"}, {"every_n_train_steps", "7"}}) ==
          Names{"epoch=1-step=7.ckpt", "epoch=3-step=14.ckpt"});
  }
  SECTION("elsewhere, without overwriting what is there") {
    const std::string folder = setting.dir.path() + "/elsewhere";
    setting.after_fit({{"dirpath", folder}, {"filename", "best"}});
    setting.after_fit({{"dirpath", folder}, {"filename", "best"}});
    CHECK(setting.names(folder) == Names{"best-v1.ckpt", "best.ckpt"});
  }
  SECTION("at the end of validations inside of epochs") {
    setting.options.trainer.val_check_interval = BatchLimit{std::int64_t{2}};
    CHECK(setting.after_fit({{"save_top_k", "-1"}}, {1, 1, 1, 1, 1}).size() == 10);
  }
  SECTION("at the end of epochs all the same") {
    setting.options.trainer.val_check_interval = BatchLimit{std::int64_t{2}};
    CHECK(setting.after_fit({{"save_top_k", "-1"}, {"save_on_train_epoch_end", "true"}}, {1, 1, 1, 1, 1})
              .size() == 5);
  }
}

TEST_CASE("a name has the epoch's value of a metric that is logged in both ways", "[checkpoint]") {
  class Both : public test::Regression {
   public:
    StepOutput training_step(const Batch& batch, std::int64_t) override {
      log("both", 2.5, {.on_step = true, .on_epoch = true});
      return loss(batch);
    }
  };
  CheckpointSetting setting;
  setting.options.trainer.max_epochs = 1;
  setting.options.checkpoint.args = {{"filename", "{both:.1f}"}, {"save_on_train_epoch_end", "true"}};
  Both model;
  setting.fit(model, setting.data);
  CHECK(setting.names() == Names{"both=2.5.ckpt"});
}

TEST_CASE("the best checkpoints stay, and the newest where it is wanted", "[checkpoint]") {
  CheckpointSetting setting;
  const std::vector<double> scores{0.5, 0.2, 0.9, 0.3, 0.4};
  SECTION("the least") {
    CHECK(setting.after_fit({{"monitor", "score"}, {"save_top_k", "2"}, {"filename", "{epoch}-{score:.1f}"}},
                            scores) == Names{"epoch=1-score=0.2.ckpt", "epoch=3-score=0.3.ckpt"});
  }
  SECTION("the largest") {
    CHECK(setting.after_fit({{"monitor", "score"}, {"mode", "max"}}, scores) ==
          Names{"epoch=2-step=12.ckpt"});
  }
  SECTION("and the newest") {
    CHECK(setting.after_fit({{"monitor", "score"}, {"save_last", "true"}}, scores) ==
          Names{"epoch=1-step=8.ckpt", "epoch=4-step=20.ckpt", "last.ckpt"});
  }
  SECTION("the newest alone") {
    CHECK(setting.after_fit({{"save_top_k", "0"}, {"save_last", "true"}}) ==
          Names{"epoch=4-step=20.ckpt", "last.ckpt"});
    CHECK(
        std::filesystem::read_symlink(setting.dir.path() + "/cxtrain_logs/version_0/checkpoints/last.ckpt") ==
        "epoch=4-step=20.ckpt");
  }
  SECTION("a score that is no number is the worst") {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK(setting.after_fit({{"monitor", "score"}}, {0.5, nan, 0.4, nan, nan}) ==
          Names{"epoch=2-step=12.ckpt"});
  }
}

TEST_CASE("the best of several best checkpoints is not the newest of them", "[checkpoint]") {
  CheckpointSetting setting;
  Scored model({0.5, 0.2, 0.9, 0.3, 0.4});
  auto callback =
      std::make_unique<ModelCheckpoint>(ModelCheckpoint::Args{.monitor = "score", .save_top_k = 2});
  const ModelCheckpoint& kept = *callback;
  Trainer trainer(setting.world, setting.options);
  trainer.add_callback(std::move(callback));
  trainer.fit(model, setting.data);
  CHECK_THAT(kept.best_model_path(), test::contains("/epoch=1-step=8"));
}

TEST_CASE("two that save at the same step in one folder leave each other's checkpoints alone",
          "[checkpoint]") {
  CheckpointSetting setting;
  Scored model({0.5, 0.2, 0.9, 0.3, 0.4});
  Trainer trainer(setting.world, setting.options);
  trainer.add_callback(std::make_unique<ModelCheckpoint>(ModelCheckpoint::Args{.monitor = "score"}));
  trainer.fit(model, setting.data);
  const Names found = setting.names();
  REQUIRE(found.size() == 2);
  CHECK(found[0].starts_with("epoch=1-step=8"));
  CHECK(found[1].starts_with("epoch=4-step=20"));
}

TEST_CASE("a training goes on from where the callback of the configuration writes", "[checkpoint]") {
  CheckpointSetting setting;
  const std::string folder = setting.dir.path() + "/elsewhere";
  setting.options.callbacks = {{"model_checkpoint", {{"dirpath", folder}}}};
  setting.options.ckpt_path = "auto";
  for (const int epochs : {2, 3}) {
    setting.options.trainer.max_epochs = epochs;
    Scored model;
    setting.fit(model, setting.data);
  }
  CHECK(setting.names(folder) == Names{"epoch=2-step=12.ckpt"});  // and not the first training's, too
}

/// Loads a state into a ModelCheckpoint as soon as there is a run, and keeps what that one remembers of it.
class Remembering : public Callback {
 public:
  Remembering(const std::string& folder, StateDict state, StateDict& kept)
      : callback_({.dirpath = folder}), state_(std::move(state)), kept_(kept) {}
  void setup(Run& run, Stage stage) override {
    callback_.setup(run, stage);
    if (stage != Stage::fit) return;
    callback_.on_load_checkpoint(state_);
    callback_.on_save_checkpoint(kept_);
  }

 private:
  ModelCheckpoint callback_;
  StateDict state_;
  StateDict& kept_;
};

TEST_CASE("a checkpoint that remembers other folders as checkpoints has none of them deleted",
          "[checkpoint]") {
  CheckpointSetting setting;
  const std::string own = setting.dir.path() + "/home/ckpts";
  std::filesystem::create_directories(own);
  StateDict state;
  state.set("triggered_at_step", std::int64_t{-1});
  StateDict& best = state.make_section("best_k_models");
  for (const char* path : {"/..", "/.", "", "/x", "/../.bashrc", "/real.ckpt"}) best.set(own + path, 0.0);
  state.set("best_model_path", own + "/..");
  state.set("last_model_path", setting.dir.path() + "/home");
  StateDict kept;
  setting.options.trainer.fast_dev_run = 1;
  Scored model;
  std::vector<std::unique_ptr<Callback>> callbacks;
  callbacks.push_back(std::make_unique<Remembering>(own, state, kept));
  setting.fit(model, setting.data, std::move(callbacks));
  CHECK(kept.text("best_model_path").empty());
  CHECK(kept.text("last_model_path").empty());
  const auto& remembered = kept.section("best_k_models").values();
  CHECK(remembered.size() == 1);
  CHECK(remembered.contains(own + "/real.ckpt"));
}

TEST_CASE("a run that was copied goes on in the copy", "[checkpoint]") {
  CheckpointSetting setting;
  setting.options.trainer.max_epochs = 1;
  Scored model;
  setting.fit(model, setting.data);
  const std::string logs = setting.dir.path() + "/cxtrain_logs";
  std::filesystem::copy(logs + "/version_0", logs + "/version_7", std::filesystem::copy_options::recursive);
  setting.options.trainer.max_epochs = 2;
  setting.options.ckpt_path = "last";
  Scored again;
  setting.fit(again, setting.data);
  CHECK(setting.names(logs + "/version_0/checkpoints") == Names{"epoch=0-step=4.ckpt"});
  // What the original remembers as its own is not deleted, not even in the copy.
  CHECK(setting.names(logs + "/version_7/checkpoints") ==
        Names{"epoch=0-step=4.ckpt", "epoch=1-step=8.ckpt"});
}

TEST_CASE("runs of other users are passed over unless they are named", "[checkpoint]") {
  if (geteuid() != 0) return test::skip("only root can give a folder to another user");
  CheckpointSetting setting;
  setting.options.trainer.max_epochs = 1;
  Scored model;
  setting.fit(model, setting.data);
  const std::string logs = setting.dir.path() + "/cxtrain_logs", theirs = logs + "/version_7";
  std::filesystem::copy(logs + "/version_0", theirs, std::filesystem::copy_options::recursive);
  REQUIRE(chown(theirs.c_str(), 54321, 54321) == 0);
  setting.options.trainer.max_epochs = 2;
  const bool named = GENERATE(false, true);
  setting.options.ckpt_path = named ? theirs : "auto";
  Scored again;
  setting.fit(again, setting.data);
  const Names before{"epoch=0-step=4.ckpt"};
  CHECK((setting.names(logs + "/version_0/checkpoints") == before) == named);
  CHECK((setting.names(theirs + "/checkpoints") == before) != named);
}

TEST_CASE("a link of somebody else in a run's folder leads to no checkpoints", "[checkpoint]") {
  if (geteuid() != 0) return test::skip("only root can give a link to another user");
  CheckpointSetting setting;
  setting.options.trainer.max_epochs = 1;
  Scored model;
  setting.fit(model, setting.data);
  const std::string mine = setting.dir.path() + "/cxtrain_logs/version_0/checkpoints";
  const std::string theirs = setting.dir.path() + "/theirs", link = theirs + "/checkpoints";
  std::filesystem::create_directory(theirs);
  std::filesystem::create_directory_symlink(mine, link);
  REQUIRE(lchown(link.c_str(), 54321, 54321) == 0);
  setting.options.trainer.max_epochs = 2;
  setting.options.ckpt_path = theirs;
  Scored again;
  CHECK_THAT(test::error_of([&] { setting.fit(again, setting.data); }),
             test::contains(test::code(MessageCode::unsafe_file)) && test::contains("--ckpt_path"));
  CHECK(setting.names(mine) == Names{"epoch=0-step=4.ckpt"});
}

TEST_CASE("a checkpoint whose unfinished name somebody else holds gets another name", "[checkpoint]") {
  if (geteuid() != 0) return test::skip("only root can give a folder to another user");
  CheckpointSetting setting;
  setting.options.trainer.max_epochs = 1;
  const std::string folder = setting.dir.path() + "/shared", part = folder + "/epoch=0-step=4.ckpt.part";
  std::filesystem::create_directories(part);
  REQUIRE(chown(part.c_str(), 54321, 54321) == 0);
  setting.options.checkpoint.args["dirpath"] = folder;
  Scored model;
  setting.fit(model, setting.data);
  CHECK(std::filesystem::exists(folder + "/epoch=0-step=4-v1.ckpt/manifest.json"));
}

TEST_CASE("a checkpoint's arguments that contradict each other are refused", "[checkpoint]") {
  using Args = ModelCheckpoint::Args;
  CHECK_THROWS_AS(ModelCheckpoint(Args{.save_top_k = 3}), ConfigError);
  CHECK_THROWS_AS(ModelCheckpoint(Args{.save_top_k = -2}), ConfigError);
  CHECK_THROWS_AS(
      ModelCheckpoint(Args{.every_n_train_steps = 5, .train_time_interval = std::chrono::seconds(3)}),
      ConfigError);
  CHECK_THROWS_AS(ModelCheckpoint(Args{.every_n_train_steps = 5, .every_n_epochs = 1}), ConfigError);
  CHECK_THROWS_AS(ModelCheckpoint(Args{.filename = "a/b"}), ConfigError);
}

TEST_CASE("a metric that nobody logs ends the training, which says what there is", "[checkpoint]") {
  CheckpointSetting setting;
  CHECK_THAT(test::error_of([&] {
               setting.after_fit({{"monitor", "val_los"}}, {1, 1, 1, 1, 1});
             }),
             test::contains(test::code(MessageCode::log_misuse)) && test::contains("score, train_loss"));
}

using Call = test::FaultyFilesystem::Call;

/// Has the disk fail every call of a kind from one save on, counted from 1, and heal at another.
class DiskTrouble : public Callback {
 public:
  DiskTrouble(test::FaultyFilesystem& files, Call kind, int fails_at, int heals_at)
      : files_(files), kind_(kind), fails_at_(fails_at), heals_at_(heals_at) {}
  /// When the one before it is on the disk, and this one not begun.
  void on_save_checkpoint(StateDict&) override {
    if (++saves_ == fails_at_)
      files_.fail({.call = files_.calls(kind_), .error = ENOSPC, .kind = kind_, .lasting = true});
    if (saves_ == heals_at_) files_.heal();
  }

 private:
  test::FaultyFilesystem& files_;
  Call kind_;
  int fails_at_, heals_at_, saves_ = 0;
};

TEST_CASE("a disk that fails costs a checkpoint, and neither the run nor the checkpoint before",
          "[checkpoint]") {
  const Call kind = GENERATE(Call::create, Call::status);
  CheckpointSetting setting;
  setting.options.trainer.logger = false;
  setting.options.checkpoint.args = {{"dirpath", "/out"}};
  for (const bool heals : {false, true}) {
    test::FaultyFilesystem files;
    Scored model;
    Trainer trainer(setting.world, setting.options);
    trainer.set_outputs({.files = &files});
    trainer.add_callback(std::make_unique<DiskTrouble>(files, kind, 3, heals ? 5 : 1000));
    const RunSummary summary = trainer.fit(model, setting.data);
    CHECK(summary.status == "done");
    CHECK(summary.global_step == 20);
    files.heal();
    std::vector<std::string> damaged;
    const std::vector<FoundCheckpoint> found = find_checkpoints(files, "/out", damaged);
    REQUIRE(found.size() == 1);
    CHECK(found[0].manifest.global_step == (heals ? 20 : 8));
    CHECK(damaged.empty());
    verify_files(files, found[0].path, found[0].manifest);
  }
}

}  // namespace
}  // namespace cxtrain
