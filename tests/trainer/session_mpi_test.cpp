#include <cstdint>
#include <filesystem>
#include <span>

#include "cxtrain/base/log.h"
#include "cxtrain/cluster/world.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/mpi_world.h"
#include "support/run_files.h"
#include "support/toy_models.h"

/// Errors that every rank has are agreed on, so that a job reports them once and ends by itself.
namespace cxtrain {
namespace {

using test::Regression;
using test::ToyData;

/// What `fit` throws on this rank; it is an error, and the same one, on all of them.
std::string agreed_error(Module& model, DataModule& data, const std::string& root) {
  Trainer trainer(test_world(), test::quiet(root));
  std::string message;
  try {
    trainer.fit(model, data);
  } catch (const Error& error) {
    message = printed(error);
    CHECK((test_world().size() == 1 || dynamic_cast<const AgreedError*>(&error) != nullptr));
  }
  for (const std::string& other : test_world().all_gather(message)) CHECK(other == message);
  return message;
}

TEST_CASE("a logger that a program adds gets the rows on rank 0 only") {
  struct CountedRows final : MetricLogger {
    void log(std::int64_t, std::int64_t, std::span<const Metric>) override { ++rows; }
    void flush() override {}
    int rows = 0;
  };
  const test::TempDir dir;
  Regression model;
  ToyData data(8 * test_world().size(), 4);
  Options options = test::quiet(dir.path());
  options.trainer.log_every_n_steps = 1;
  Trainer trainer(test_world(), options);
  const CountedRows& counted = trainer.add_logger<CountedRows>();
  trainer.fit(model, data);
  CHECK((counted.rows > 0) == test_world().is_root());
}

TEST_CASE("parameters that differ at the end of a run are told and written down, and the run is not lost") {
  class Drifting : public Regression {
   public:
    void on_train_end() override {
      const at::NoGradGuard no_grad;
      if (global_rank() == world_size() - 1) first->weight.add_(1);
    }
  };
  const test::TempDir dir;
  Drifting model;
  ToyData data(32, 4);
  const int last = test_world().size() - 1;
  Log log{test_world().rank() + 1};  // rank 0 would write to the console, too
  Trainer trainer(test_world(), test::quiet(dir.path()));
  trainer.set_outputs({.log = &log});
  const RunSummary run = trainer.fit(model, data);
  CHECK(run.status == "done");
  CHECK(run.parameters_equal_on_all_ranks == (last == 0));
  const std::string hash = run.parameters_sha256;
  for (const std::string& other : test_world().all_gather(hash)) CHECK(other == hash);  // rank 0's
  if (!test_world().is_root()) return;
  const nlohmann::json written = test::run_json(dir);
  CHECK(written["status"] == "done");
  CHECK(written["global_step"] == run.global_step);
  CHECK(written["parameters_sha256"] == hash);
  CHECK(written["parameters_equal_on_all_ranks"] == (last == 0));
  const std::string said = test::slurp(trainer.log_dir() + "/rank_1.log");
  const bool told = said.find("rank " + std::to_string(last) + " has other parameters") != std::string::npos;
  CHECK(told == (last > 0));
}

TEST_CASE("data without samples is one error") {
  const test::TempDir dir;
  Regression model;
  ToyData data(0, 4);
  CHECK_THAT(agreed_error(model, data, dir.path()),
             test::contains(test::code(MessageCode::no_data)) && test::contains("data:"));
}

TEST_CASE("samples that make no batch are one error, which names the batch size") {
  class Dropping : public ToyData {
   public:
    using ToyData::ToyData;
    Loaders train_dataloader() override {
      DataLoaderSpec spec = ToyData::train_dataloader().specs().front();
      spec.drop_last = true;
      return spec;
    }
  };
  const test::TempDir dir;
  Regression model;
  Dropping data(3, 4);
  CHECK_THAT(agreed_error(model, data, dir.path()), test::contains(test::code(MessageCode::no_data)) &&
                                                        test::contains("data.batch_size:") &&
                                                        test::contains("3"));
}

TEST_CASE("a model that cannot be placed is one error") {
  class Unplaceable : public Regression {
   public:
    void place_parts() override { throw DataError("no device takes the decoder"); }
  };
  const test::TempDir dir;
  Unplaceable model;
  ToyData data(32, 4);
  CHECK_THAT(agreed_error(model, data, dir.path()), test::contains(test::code(MessageCode::bad_data)) &&
                                                        test::contains("no device takes the decoder"));
}

TEST_CASE("callbacks that cannot be made on one rank are one error") {
  class Refusing : public Regression {
   public:
    std::vector<std::unique_ptr<Callback>> configure_callbacks() override {
      if (test_world().is_root()) throw DataError("no room for a callback");
      return {};
    }
  };
  const test::TempDir dir;
  Refusing model;
  ToyData data(32, 4);
  CHECK_THAT(agreed_error(model, data, dir.path()),
             test::contains(test::code(MessageCode::bad_data)) && test::contains("no room for a callback"));
}

/// Notes the calls of a data module, and fails in `prepare_data` if told to.
class PreparedData : public ToyData {
 public:
  explicit PreparedData(bool fails = false) : ToyData(32, 4, 8), fails_(fails) {}
  void prepare_data(const DataOptions&) override {
    calls += "prepare ";
    if (fails_) throw DataError("the download of toys has failed");
  }
  void setup(Stage stage, const DataOptions& options) override {
    calls += std::string(name_of(stage)) + " ";
    ToyData::setup(stage, options);
  }

  std::string calls;

 private:
  bool fails_;
};

TEST_CASE("data are prepared on one rank of each node, and set up for each stage on every rank") {
  const test::TempDir dir;
  Regression model;
  PreparedData data;
  Trainer trainer(test_world(), test::quiet(dir.path()));
  trainer.fit(model, data);
  trainer.validate(model, data);
  const bool prepares = test_world().facts().local_rank == 0;
  CHECK(data.calls == (prepares ? "prepare fit prepare validate " : "fit validate "));
  PreparedData broken(/*fails=*/true);
  CHECK_THAT(agreed_error(model, broken, dir.path()), test::contains("the download of toys has failed"));
  CHECK(broken.calls == (prepares ? "prepare " : ""));
}

}  // namespace
}  // namespace cxtrain
