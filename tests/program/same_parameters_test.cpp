#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "support/catch.h"
#include "support/run_files.h"
#include "support/run_program.h"

/// The promise of the strategies: one training, however it is spread. The same 64 samples a step on any
/// number of replicas, ranks or devices a rank end with the parameters of one process on one device.
namespace cxtrain::test {
namespace {

constexpr int kGlobalBatch = 64;

struct Trained {
  nlohmann::json summary;
  std::vector<float> parameters;
};

/// How a training is spread: options, over how many micro-batches a step's samples are divided, and under how
/// many of mpirun's ranks it runs (0: started alone).
struct Spread {
  std::string options, strategy;
  int parts = 1;
  int mpirun_ranks = 0;
};

/// 20 steps on the digits. `micro_batches`: of a rank, in all of them.
Trained train(const Spread& spread, int micro_batches = 20, int seed = 7) {
  const TempDir dir;
  std::ostringstream arguments;
  arguments << "--plugin " << CXTRAIN_TEST_PLUGIN_DIR << "/witness.so --model witness "
            << "--model.parameters_file " << dir.file("parameters") << " --default_root_dir " << dir.path()
            << " --accelerator cpu --max_epochs 1 --limit_train_batches " << micro_batches << " --seed "
            << seed << " --data.batch_size " << kGlobalBatch / spread.parts << " " << spread.options;
  const ProgramResult run =
      spread.mpirun_ranks ? run_ranks(spread.mpirun_ranks, arguments.str()) : run_program(arguments.str());
  CAPTURE(arguments.str(), run.output);
  REQUIRE(run.status == 0);
  Trained trained;
  trained.summary = run_json(dir);
  REQUIRE(trained.summary["global_step"] == 20);
  REQUIRE(trained.summary["strategy"] == spread.strategy);
  const std::string bytes = slurp(dir.file("parameters"));
  trained.parameters.resize(bytes.size() / sizeof(float));
  std::memcpy(trained.parameters.data(), bytes.data(), bytes.size());
  return trained;
}

/// ||a - b|| / ||b||
double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(double{a[i]} - double{b[i]}, 2);
    norm += std::pow(double{b[i]}, 2);
  }
  return std::sqrt(difference / norm);
}

const Spread kSingle{"--strategy single", "single"};

const Trained& single() {
  static const Trained trained = train(kSingle);
  return trained;
}

void check_same_as_single(const Trained& trained) {
  CHECK(relative_difference(trained.parameters, single().parameters) < 1e-5);
  for (const char* loss : {"train_loss", "val_loss"}) {
    CAPTURE(loss);
    CHECK(trained.summary["metrics"][loss].get<double>() ==
          Catch::Approx(single().summary["metrics"][loss].get<double>()).margin(1e-4));
  }
}

TEST_CASE("single learns something in 20 steps, and the order of the data matters") {
  CHECK(single().parameters.size() == 64 * 48 + 48 + 48 * 10 + 10);
  CHECK(single().summary["metrics"]["val_loss"].get<double>() < 1.5);  // guessing is ln 10 = 2.3
  CHECK(relative_difference(train(kSingle, 20, 8).parameters, single().parameters) > 0.01);
}

TEST_CASE("every strategy trains to the parameters and losses of single") {
  const Spread spread = GENERATE(values<Spread>({
      {"--strategy dp --devices 2", "dp"},
      {"--strategy dp --devices 4", "dp"},
      {"--strategy ddp_spawn --devices 2", "ddp_spawn", 2},
      {"--strategy ddp_spawn --devices 4", "ddp_spawn", 4},
      {"--strategy ddp --devices 2", "ddp", 2},
      {"--strategy ddp --devices 4", "ddp", 4},
      {"", "ddp", 4, 4},
  }));
  CAPTURE(spread.options, spread.mpirun_ranks);
  check_same_as_single(train(spread));
}

TEST_CASE("a model split over two devices trains to the parameters of one device, alone and over ranks") {
  const Spread spread = GENERATE(values<Spread>({
      {"--devices_per_rank 2", "single"},
      {"--devices 4 --devices_per_rank 2", "ddp", 2},
      {"--devices 4 --devices_per_rank 2 --strategy ddp_spawn", "ddp_spawn", 2},
  }));
  CAPTURE(spread.options);
  check_same_as_single(train(spread));
}

TEST_CASE("accumulated micro-batches of several ranks train to the parameters of single") {
  check_same_as_single(train({"--strategy ddp --devices 2 --accumulate_grad_batches 2", "ddp", 4}, 40));
}

}  // namespace
}  // namespace cxtrain::test
