#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randn.h>

#include <map>
#include <vector>

#include "cxtrain/data/tensor_dataset.h"
#include "cxtrain/metrics/classification.h"
#include "cxtrain/metrics/regression.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/temp_dir.h"
#include "support/toy_models.h"

/// Metrics of whole trainings: what each strategy logs is what one process would.
namespace cxtrain {
namespace {

constexpr std::int64_t kValSamples = 29;  // the ranks' batches do not divide them

/// Three classes; what the metrics log is beside means that are logged as numbers.
class Classifier : public Module {
 public:
  Classifier() {
    at::manual_seed(4);
    layer_ = register_module("layer", torch::nn::Linear(6, 3));
    to(at::kDouble);
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor scores = layer_->forward(batch[0]);
    accuracy_.update(scores, batch[1]);
    log("train_acc", accuracy_, {.on_step = true, .on_epoch = true});
    log("train_share", share(scores, batch), {.on_step = true, .on_epoch = true});
    return at::cross_entropy_loss(scores, batch[1]);
  }
  void validation_step(const Batch& batch, std::int64_t) override {
    const at::Tensor scores = layer_->forward(batch[0]);
    accuracy_.update(scores, batch[1]);
    matrix_.update(scores, batch[1]);
    f1_.update(scores, batch[1]);
    log("val_acc", accuracy_);
    log("val_f1", f1_);
    log("val_share", share(scores, batch));
  }
  void test_step(const Batch& batch, std::int64_t) override {
    f1_.update(layer_->forward(batch[0]), batch[1]);
    log("test_f1", f1_);
  }
  void on_validation_epoch_end() override {
    matrices.push_back(matrix_.compute().clone());
    log("samples", matrices.back().sum());
  }
  Optimizers configure_optimizers() override { return Sgd{.lr = 0.2}; }

  std::vector<at::Tensor> matrices;

 private:
  static at::Tensor share(const at::Tensor& scores, const Batch& batch) {
    return scores.argmax(1).eq(batch[1]).to(at::kDouble).mean();
  }
  torch::nn::Linear layer_{nullptr};
  Accuracy& accuracy_ = register_metric<Accuracy>("accuracy", {.classes = 3});
  F1Score& f1_ = register_metric<F1Score>("f1", {.classes = 3, .average = Averaging::macro});
  ConfusionMatrix& matrix_ = register_metric<ConfusionMatrix>("matrix", {.classes = 3});
};

class ThreeClasses : public DataModule {
 public:
  explicit ThreeClasses(std::int64_t batch_size) : batch_size_(batch_size) {
    at::manual_seed(5);
    train_ = samples(12 * 11);
    val_ = samples(kValSamples);
  }
  Loaders train_dataloader() override { return {train_, batch_size_, /*shuffle=*/true}; }
  Loaders val_dataloader() override { return {val_, batch_size_}; }
  Loaders test_dataloader() override { return {val_, batch_size_}; }

 private:
  static std::shared_ptr<TensorDataset> samples(std::int64_t count) {
    const at::Tensor inputs = at::randn({count, 6}, at::kDouble);
    const at::Tensor classes = inputs.narrow(1, 0, 3).add(at::randn({count, 3}, at::kDouble)).argmax(1);
    return std::make_shared<TensorDataset>(std::vector<at::Tensor>{inputs, classes});
  }
  std::int64_t batch_size_;
  std::shared_ptr<TensorDataset> train_, val_;
};

/// Rows as they come, on rank 0.
class KeptRows : public MetricLogger {
 public:
  using Row = std::map<std::string, double>;
  explicit KeptRows(std::vector<Row>& rows) : rows_(rows) {}
  void log(std::int64_t, std::int64_t, std::span<const Metric> metrics) override {
    Row& row = rows_.emplace_back();
    for (const auto& [name, value] : metrics) row[std::string(name)] = value;
  }
  void flush() override {}

 private:
  std::vector<Row>& rows_;
};

struct Logged {
  std::vector<KeptRows::Row> rows;
  std::map<std::string, double> last;
  std::vector<at::Tensor> matrices;
};

Options of_classifier(const std::string& strategy) {
  Options options = test::quiet("");
  options.trainer.max_epochs = 2;
  options.trainer.log_every_n_steps = 1;
  options.trainer.num_sanity_val_steps = 2;
  options.trainer.precision = "64-true";
  options.trainer.val_check_interval = BatchLimit{std::int64_t{4}};
  options.trainer.strategy = strategy;
  return options;
}

/// 12 samples a step, whatever the ranks are.
Logged train_classifier(World& world, Options options) {
  const test::TempDir dir;
  options.trainer.default_root_dir = dir.path();
  Logged logged;
  Classifier model;
  ThreeClasses data(12 / world.size());
  Trainer trainer(world, options);
  trainer.set_replica_factory([] { return std::make_unique<Classifier>(); });
  trainer.add_logger(std::make_unique<KeptRows>(logged.rows));
  logged.last = trainer.fit(model, data).metrics;
  for (const auto& [name, value] : trainer.test(model, data).metrics) logged.last[name] = value;
  logged.matrices = model.matrices;
  return logged;
}

Logged one_process() {
  SoloWorld world;
  return train_classifier(world, of_classifier("single"));
}

void check_same(const Logged& found, const Logged& expected) {
  for (const char* name : {"train_acc_epoch", "val_acc", "val_f1", "test_f1", "samples"}) {
    INFO(name);
    REQUIRE(expected.last.contains(name));
    REQUIRE(found.last.contains(name));
    CHECK(found.last.at(name) == expected.last.at(name));
  }
  REQUIRE(found.matrices.size() == expected.matrices.size());
  for (std::size_t i = 1; i < found.matrices.size(); ++i)  // the first is the sanity check's
    CHECK(at::equal(found.matrices[i], expected.matrices[i]));
}

TEST_CASE("metrics of one process: batches and epochs are those of their own samples") {
  const Logged logged = one_process();
  int steps = 0, epochs = 0, validations = 0;
  for (const KeptRows::Row& row : logged.rows) {
    const auto same = [&](const char* metric, const char* share, int& count) {
      if (!row.contains(metric)) return;
      ++count;
      CHECK_THAT(row.at(metric), Catch::Matchers::WithinAbs(row.at(share), 1e-12));
    };
    same("train_acc_step", "train_share_step", steps);
    same("train_acc_epoch", "train_share_epoch", epochs);
    same("val_acc", "val_share", validations);
  }
  CHECK(steps == 2 * 11);
  CHECK(epochs == 2);
  CHECK(validations == 2 * 2);
  REQUIRE(logged.matrices.size() == 5);
  CHECK(logged.matrices[0].sum().item<std::int64_t>() == 2 * 12);  // the sanity check's
  for (std::size_t i = 1; i < 5; ++i) CHECK(logged.matrices[i].sum().item<std::int64_t>() == kValSamples);
}

TEST_CASE("ddp logs the metrics of single, whose samples it divides unevenly") {
  check_same(train_classifier(test_world(), of_classifier("ddp")), one_process());
}

TEST_CASE("dp adds what its replicas have seen") {
  if (test_world().size() > 1) return test::skip_for_ranks("dp is one process");
  Options options = of_classifier("dp");
  options.trainer.accelerator = "cpu";
  options.trainer.devices = "3";
  const Logged found = train_classifier(test_world(), options), expected = one_process();
  check_same(found, expected);
  REQUIRE(found.rows.size() == expected.rows.size());
  for (std::size_t i = 0; i < found.rows.size(); ++i) {
    if (!expected.rows[i].contains("train_acc_step")) continue;
    CHECK(found.rows[i].at("train_acc_step") == expected.rows[i].at("train_acc_step"));
  }
}

class LogsTheMatrix : public Classifier {
 public:
  void validation_step(const Batch& batch, std::int64_t) override {
    other_.update(at::zeros({batch.size, 3}), batch[1]);
    log("matrix", other_);
  }
  ConfusionMatrix& other_ = register_metric<ConfusionMatrix>("other", {.classes = 3});
};

TEST_CASE("a metric that is no number cannot be logged, and the error has its shape") {
  const test::TempDir dir;
  LogsTheMatrix model;
  ThreeClasses data(4);
  Options options = of_classifier("single");
  options.trainer.default_root_dir = dir.path();
  SoloWorld world;
  Trainer trainer(world, options);
  CHECK_THAT(test::error_of([&] { trainer.fit(model, data); }),
             test::contains(test::code(MessageCode::log_misuse)) && test::contains("[3, 3]"));
}

}  // namespace
}  // namespace cxtrain
