#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <set>

#include "cxtrain/callbacks/callback.h"
#include "cxtrain/report/image.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/event_file.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// Images and texts from hooks and steps, on any number of ranks.
namespace cxtrain {
namespace {

struct Kept {
  std::int64_t step;
  std::string name, content;  ///< of an image: shape and mean
  bool operator==(const Kept&) const = default;
};

class KeepingLogger : public MetricLogger {
 public:
  explicit KeepingLogger(std::vector<Kept>& kept) : kept_(kept) {}
  void log(std::int64_t, std::int64_t, std::span<const Metric>) override {}
  bool log_image(std::string_view name, const at::Tensor& image, std::int64_t step) override {
    CHECK(image.scalar_type() == at::kByte);
    CHECK(image.is_cpu());
    std::ostringstream content;
    content << image.sizes() << " " << image.to(at::kDouble).mean().item<double>();
    kept_.push_back({step, std::string(name), content.str()});
    return true;
  }
  bool log_text(std::string_view name, std::string_view text, std::int64_t step) override {
    kept_.push_back({step, std::string(name), std::string(text)});
    return true;
  }
  void flush() override {}

 private:
  std::vector<Kept>& kept_;
};

/// An image that only rank 0 has: on the other ranks nothing can be copied from it.
at::Tensor image_of_rank(int rank, double value) {
  if (rank == 0) return at::full({1, 2, 3}, value);
  return at::empty({1, 2, 3}, at::device(at::kMeta));
}

class ImageModel : public test::Regression {
 public:
  StepOutput training_step(const Batch& batch, std::int64_t batch_idx) override {
    if (batch_idx == 1) loggers().log_image("step", image_of_rank(global_rank(), 1));
    return test::Regression::training_step(batch, batch_idx);
  }
  void on_validation_epoch_end() override { loggers().log_text("validated", std::to_string(global_step())); }
  void on_fit_end() override { loggers().log_text("end", "fit"); }
};

class ImageCallback : public Callback {
 public:
  void on_train_batch_end(Run& run, const StepOutput&, const Batch&, std::int64_t batch_idx) override {
    if (batch_idx == 0) run.loggers().log_text("batch", std::to_string(run.global_step()));
  }
  void on_train_epoch_end(Run& run) override {
    run.loggers().log_image("epoch", image_of_rank(run.rank(), 0));
  }
};

class Monitoring : public Callback {
  bool monitors() const override { return true; }
  void on_train_epoch_end(Run& run) override { run.loggers().log_text("monitored", "epoch"); }
};

Options with_images(const std::string& root) {
  Options options = test::quiet(root);
  options.trainer.num_sanity_val_steps = 2;
  options.trainer.strategy = test_world().size() > 1 ? "ddp" : "single";
  return options;
}

TEST_CASE("hooks and steps log images and texts, which rank 0 alone writes") {
  const test::TempDir dir;
  std::vector<Kept> kept;
  ImageModel model;
  test::ToyData data(3 * 8 * test_world().size(), 8, 16);
  Trainer trainer(test_world(), with_images(dir.path()));
  trainer.add_callback<ImageCallback>();
  trainer.add_callback<Monitoring>();
  trainer.add_logger<KeepingLogger>(kept);
  trainer.fit(model, data);
  model.loggers().log_text("outside", "of a run");
  if (!test_world().is_root()) {
    CHECK(kept.empty());
    return;
  }
  // A sanity check logs nothing.
  const std::vector<Kept> expected{{1, "batch", "1"},         {1, "step", "[1, 2, 3] 255"},
                                   {3, "validated", "3"},     {3, "epoch", "[1, 2, 3] 0"},
                                   {3, "monitored", "epoch"}, {3, "end", "fit"}};
  CHECK((kept == expected));

  // The logger that every run has by default.
  std::set<std::string> tags;
  for (const std::string& name : real_filesystem().list(trainer.log_dir())) {
    if (!name.starts_with("events.out.tfevents.")) continue;
    for (const auto& event : test::read_events(test::slurp(trainer.log_dir() + "/" + name)))
      tags.insert(event.tag);
  }
  for (const char* tag : {"step", "epoch", "validated/text_summary", "batch/text_summary"})
    CHECK(tags.contains(tag));
}

TEST_CASE("a tensor that is not an image is an error on every rank, with its name, also in a sanity check") {
  class Flat : public test::Regression {
    void on_validation_epoch_end() override { loggers().log_image("flat", at::full({5}, 1.0)); }
  };
  const test::TempDir dir;
  Flat model;
  test::ToyData data(16 * test_world().size(), 8, 16);
  Trainer trainer(test_world(), with_images(dir.path()));
  CHECK_THAT(test::error_of([&] { trainer.fit(model, data); }),
             test::contains("log_image(\"flat\")") && test::contains("[5]") &&
                 test::contains(test::code(MessageCode::log_misuse)));
  CHECK(model.training_steps == 0);
}

TEST_CASE("a run without loggers needs no image") {
  const test::TempDir dir;
  Options options = with_images(dir.path());
  options.trainer.logger = false;
  class NoPixels : public test::Regression {
    void on_train_epoch_end() override {
      loggers().log_image("meta", at::empty({2, 2}, at::device(at::kMeta)));
    }
  };
  NoPixels model;
  test::ToyData data(16 * test_world().size(), 8, 16);
  Trainer trainer(test_world(), options);
  CHECK(trainer.fit(model, data).status == "done");
}

TEST_CASE("the steps of the first replica of dp log, and trials of a batch size do not") {
  if (test_world().size() > 1) return test::skip_for_ranks("dp is one process");
  const test::TempDir dir;
  std::vector<Kept> kept;
  Options options = test::quiet(dir.path());
  const bool with_dp = GENERATE(true, false);
  if (with_dp) {
    options.trainer.accelerator = "cpu";
    options.trainer.strategy = "dp";
    options.trainer.devices = "3";
  } else {
    options.trainer.auto_scale_batch_size = BatchScaling::power;
    options.trainer.auto_lr_find = true;
  }
  ImageModel model;
  test::ToyData data(3 * 12, 12);
  Trainer trainer(test_world(), options);
  trainer.set_replica_factory([] { return std::make_unique<ImageModel>(); });
  trainer.add_logger<KeepingLogger>(kept);
  const RunSummary summary = trainer.fit(model, data);
  const auto images =
      std::count_if(kept.begin(), kept.end(), [](const Kept& each) { return each.name == "step"; });
  CHECK(images == (summary.global_step > 1 ? 1 : 0));
  if (with_dp) CHECK(images == 1);
}

}  // namespace
}  // namespace cxtrain
