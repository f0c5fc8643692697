#include "support/nodes.h"

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "support/catch.h"
#include "support/gzip.h"
#include "support/run_files.h"
#include "support/running_program.h"
#include "support/skip.h"

/// Jobs over several nodes, emulated on this machine: what becomes of one that is lost, or cut off.
namespace cxtrain::test {
namespace {

const std::string kNodesTraining = " --accelerator cpu --enable_progress_bar false --model.hidden 32 ";
const std::string kEndlessOnNodes = kNodesTraining + "--max_epochs -1 --checkpoint.every_n_train_steps 20 ";

/// The mpirun of Open MPI 5.0 ends with 0 when it has lost a node (docs/platforms.md).
void check_failed(const ProgramResult& job) {
  if (OMPI_MAJOR_VERSION < 5) CHECK(job.status != 0);
  CHECK(job.status != 124);
}

bool saved_something(const TempDir& dir) { return newest_checkpoint(dir.path()).step > 0; }

TEST_CASE("two nodes train as one does, however many ranks each has", "[nodes]") {
  const Nodes nodes(2);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  const std::string options = kNodesTraining + "--max_epochs 2 --data.batch_size 8 ";
  const TempDir one;
  const ProgramResult alone = run_command(Nodes::mpirun("n1:4", 4) + options + in(one));
  CAPTURE(alone.output);
  REQUIRE(alone.status == 0);
  for (const char* hosts : {"n1:2,n2:2", "n1:3,n2:1"}) {
    const TempDir dir;
    const ProgramResult both = run_command(Nodes::mpirun(hosts, 4) + options + in(dir));
    CAPTURE(hosts, both.output);
    REQUIRE(both.status == 0);
    CHECK(run_json(dir)["world_size"] == 4);
    CHECK(run_json(dir)["global_step"] == run_json(one)["global_step"]);
    const double loss = run_json(dir)["metrics"]["val_loss"], same = run_json(one)["metrics"]["val_loss"];
    CHECK(loss == Approx(same).epsilon(1e-4));
  }
}

TEST_CASE("the same ranks have the same bits on one, two and four nodes", "[nodes]") {
  const Nodes nodes(4);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  std::string expected;
  for (const char* hosts : {"n1:4", "n1:2,n2:2", "n1:1,n2:1,n3:1,n4:1"}) {
    for (const char* way :
         {"", "--strategy.overlap false", "--strategy.first_bucket_bytes 1000 --strategy.bucket_bytes 10000",
          "--strategy.network mpi", "--strategy.network mpi --strategy.bucket_bytes 10000"}) {
      const TempDir dir;
      const ProgramResult run =
          run_command(Nodes::mpirun(hosts, 4) + kNodesTraining +
                      "--strategy ddp --max_epochs 2 --data.batch_size 8 " + way + in(dir));
      CAPTURE(hosts, way, run.output);
      REQUIRE(run.status == 0);
      const bool by_mpi = std::string(way).find("mpi") != std::string::npos;
      if (std::string(hosts) != "n1:4")
        CHECK_THAT(run.output, contains(by_mpi ? "nodes by MPI" : "nodes by TCP"));
      const std::string sha = run_json(dir)["parameters_sha256"];
      if (expected.empty()) expected = sha;
      CHECK(sha == expected);
    }
  }
}

/// Returns the number of collective calls of MPI that rank 0 makes in a training of `steps` steps, on two
/// nodes of two ranks. The training saves no checkpoint, because the number of calls for a checkpoint depends
/// on how long writing takes.
long collectives_of(int steps) {
  const TempDir dir;
  const std::string file = dir.path() + "/collectives";
  const ProgramResult run =
      run_command("CXTRAIN_TEST_COLLECTIVES=" + file + " " +
                  Nodes::mpirun("n1:2,n2:2 -x CXTRAIN_TEST_COLLECTIVES -x LD_PRELOAD=" CXTRAIN_TEST_PLUGIN_DIR
                                "/count_collectives.so",
                                4) +
                  kNodesTraining +
                  "--data.batch_size 8 --limit_val_batches 0 --enable_checkpointing false --max_epochs -1 "
                  "--max_steps " +
                  std::to_string(steps) + in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  return std::stol(slurp(file));
}

TEST_CASE("a training step over several nodes calls no collective of MPI", "[nodes]") {
  const Nodes nodes(2);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  const long few = collectives_of(5);
  CHECK(few > 0);
  CHECK(collectives_of(35) == few);
}

/// The events of a rank in a trace that have this category, and names that begin with `name`, by their begin.
std::vector<nlohmann::json> traced(const nlohmann::json& trace, int rank, const std::string& category,
                                   const std::string& name) {
  std::vector<nlohmann::json> found;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["pid"] == rank && event["cat"] == category &&
        event["name"].get<std::string>().starts_with(name))
      found.push_back(event);
  }
  std::sort(found.begin(), found.end(), [](const nlohmann::json& a, const nlohmann::json& b) {
    return a["ts"].get<double>() < b["ts"].get<double>();
  });
  return found;
}

TEST_CASE("a trace shows when each bucket travels between nodes", "[nodes]") {
  const std::string way = GENERATE(as<std::string>{}, "", "--strategy.network mpi ");
  const Nodes nodes(2);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  const TempDir dir;
  const ProgramResult run =
      run_command(Nodes::mpirun("n1:1,n2:1", 2) + kNodesTraining +
                  "--strategy ddp --data.batch_size 8 --max_epochs 1 --profiler trace " + way + in(dir));
  CAPTURE(way, run.output);
  REQUIRE(run.status == 0);
  const auto trace = nlohmann::json::parse(gunzip(dir.path() + "/cxtrain_logs/version_0/trace.json.gz"));
  constexpr double kClocks = 100;  // us between the clocks of operations and of exchanges
  for (const int rank : {0, 1}) {
    const auto buckets = traced(trace, rank, "operation", "bucket ");
    const auto exchanges = traced(trace, rank, "exchange", "exchange, ");
    CAPTURE(rank, buckets.size(), exchanges.size());
    CHECK(buckets.size() >= 5);
    REQUIRE(buckets.size() == exchanges.size());
    for (std::size_t i = 0; i < buckets.size(); ++i)
      CHECK(exchanges[i]["ts"].get<double>() >= buckets[i]["ts"].get<double>() - kClocks);
  }
}

TEST_CASE("every strategy keeps its promises over several nodes", "[nodes]") {
  struct Row {
    int nodes;
    const char* hosts;
  };
  const Row row = GENERATE(Row{2, "n1:2,n2:2"}, Row{3, "n1:1,n2:1,n3:1"});
  const Nodes nodes(row.nodes);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  const int ranks = row.nodes == 2 ? 4 : 3;
  const ProgramResult tests =
      run_command(Nodes::mpirun(row.hosts, ranks, "mpi_tests") +
                      "'[conformance],[zero],[pipeline],a state is loaded to the bit*,"
                      "every training can be resumed to the same bits: zero with*'",
                  300);
  CAPTURE(row.hosts, tests.output);
  CHECK(tests.status == 0);
  CHECK_THAT(tests.output, contains("All tests passed"));
}

/// Runs fit on two nodes of two ranks; returns run.json.
nlohmann::json fit_on_two_nodes(const TempDir& dir, const std::string& options,
                                const std::string& expected = "") {
  const ProgramResult run = run_command(Nodes::mpirun("n1:2,n2:2", 4) + kNodesTraining +
                                        "--data.batch_size 8 " + options + in(dir));
  CAPTURE(options, run.output);
  REQUIRE(run.status == 0);
  CHECK_THAT(run.output, contains(expected));
  return run_json(dir);
}

TEST_CASE("nodes that train apart meet in the mean of their models", "[nodes]") {
  const Nodes nodes(2);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  // With plain SGD the mean of two models that have stepped once is the model that has stepped by the mean.
  const std::string sgd = "--max_epochs 2 --optimizer sgd --optimizer.lr 0.1 ";
  const TempDir dirs[8];
  const auto together = fit_on_two_nodes(dirs[0], sgd);
  const auto each_step = fit_on_two_nodes(dirs[1], sgd + "--strategy.model_averaging_period 1 ");
  CHECK(each_step["metrics"]["val_loss"].get<double>() ==
        Approx(together["metrics"]["val_loss"].get<double>()).epsilon(1e-4));

  // The outer step of such a step is the optimizer's own momentum.
  const auto nesterov =
      fit_on_two_nodes(dirs[6], sgd + "--optimizer.momentum 0.5 --optimizer.nesterov true ");
  const auto outer = fit_on_two_nodes(
      dirs[7],
      "--max_epochs 2 --optimizer sgd --optimizer.lr 0.2 --strategy.model_averaging_period 1 "
      "--strategy.outer_lr 0.5 --strategy.outer_momentum 0.5 ");
  CHECK(outer["metrics"]["val_loss"].get<double>() ==
        Approx(nesterov["metrics"]["val_loss"].get<double>()).epsilon(1e-4));
  CHECK(outer["metrics"]["val_loss"].get<double>() !=
        Approx(together["metrics"]["val_loss"].get<double>()).epsilon(1e-2));

  const std::string adam =
      "--optimizer adam --strategy.model_averaging_period 7 --strategy.model_averaging_start 10 ";
  const bool divided = GENERATE(false, true);
  const std::string apart =
      adam + "--strategy.shard_optimizer " +
      (divided ? "true " : "false --strategy.outer_lr 0.7 --strategy.outer_momentum 0.9 ");
  const auto whole = fit_on_two_nodes(dirs[2], apart + "--max_epochs 3 ");
  CHECK(whole["parameters_equal_on_all_ranks"] == true);
  fit_on_two_nodes(dirs[3], apart + "--max_epochs 2 ");
  CHECK(fit_on_two_nodes(dirs[3], apart + "--max_epochs 3 --ckpt_path last ")["parameters_sha256"] ==
        whole["parameters_sha256"]);
  const auto never_apart = fit_on_two_nodes(dirs[4], "--optimizer adam --max_epochs 3 ");
  CHECK(never_apart["parameters_sha256"] != whole["parameters_sha256"]);
  CHECK(whole["metrics"]["val_loss"].get<double>() < 1.2 * never_apart["metrics"]["val_loss"].get<double>());

  const ProgramResult refused = run_command(Nodes::mpirun("n1:2,n2:2", 4) + kNodesTraining + apart +
                                            "--callbacks.ema.decay 0.9" + in(dirs[5]));
  CHECK(refused.status == 2);
  CHECK_THAT(refused.output, contains("callbacks.ema: ") && contains("model_averaging_period"));
}

TEST_CASE("gradients that would arrive late are rounded, and a resumed run rounds the same ones", "[nodes]") {
  const Nodes nodes(2);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  const std::string options =
      "--strategy.comm_hook auto --strategy.bucket_bytes 2000 --strategy.first_bucket_bytes 2000 ";
  const TempDir parts, rest;
  fit_on_two_nodes(parts, options + "--max_epochs 1 ", "auto rounds");
  fit_on_two_nodes(parts, options + "--max_epochs 2 --ckpt_path last ");
  // What a checkpoint has is not measured again.
  const std::string resumed = slurp(parts.path() + "/cxtrain_logs/version_0/rank_0.log");
  CHECK(resumed.find("auto rounds") == resumed.rfind("auto rounds"));
}

TEST_CASE("ranks are where the node file of PBS has them", "[nodes]") {
  const Nodes nodes(2);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  const TempDir dir;
  // A line for each core, of which a job with 2 chunks of 2 has this.
  const std::string list = dir.write("nodefile", "n1\nn1\nn2\nn2\n");
  const ProgramResult run =
      run_command("env PBS_JOBID=4711.server PBS_ENVIRONMENT=PBS_BATCH PBS_NODEFILE=" + list + " " +
                  Nodes::mpirun("--hostfile " + list, 4) + kNodesTraining +
                  "--max_steps 2 --devices 2 --num_nodes 2" + in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  CHECK_THAT(run.output, contains("4 ranks on 2 nodes"));
  CHECK_THAT(slurp(dir.path() + "/cxtrain_logs/version_0/rank_0.log"),
             contains("\n0-1   n1 ") && contains("\n2-3   n2 "));
}

TEST_CASE("nodes that are one machine share its cores, and rank 0 says so", "[nodes]") {
  const Nodes nodes(2);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  const TempDir dir;
  const ProgramResult run =
      run_command(Nodes::mpirun("n1:2,n2:2", 4) + kNodesTraining + "--max_steps 2" + in(dir));
  CAPTURE(run.output);
  REQUIRE(run.status == 0);
  CHECK_THAT(run.output, contains("2 of the nodes"));
}

TEST_CASE("a job ends when it loses a node, and goes on without it", "[nodes]") {
  const Nodes nodes(2);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  const TempDir dir;
  {
    RunningProgram job(Nodes::mpirun("n1:2,n2:2", 4) + kEndlessOnNodes +
                       "--data.batch_size 4 --timeout_seconds 10" + in(dir));
    REQUIRE(becomes_true([&] { return saved_something(dir); }));
    Nodes::kill("n2");
    const ProgramResult lost = job.wait(60);
    CAPTURE(lost.output);
    check_failed(lost);
    CHECK(lost.seconds < 15);
    CHECK_THAT(lost.output, contains("n2"));
  }
  const int step = newest_checkpoint(dir.path()).step;
  const ProgramResult rest =
      run_command(Nodes::mpirun("n1:2", 2) + kEndlessOnNodes +
                  "--data.batch_size 8 --ckpt_path auto --max_steps " + std::to_string(step + 40) + in(dir));
  CAPTURE(rest.output);
  REQUIRE(rest.status == 0);
  CHECK(run_json(dir)["global_step"] == step + 40);
  CHECK(run_json(dir)["world_size"] == 2);
}

TEST_CASE("a job whose network is cut ends, and mpirun names the node", "[nodes]") {
  const Nodes nodes(2);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  const TempDir dir;
  RunningProgram job(Nodes::mpirun("n1:2,n2:2", 4) + kEndlessOnNodes + "--timeout_seconds 30" + in(dir));
  REQUIRE(becomes_true([&] { return saved_something(dir); }));
  Nodes::cut("n2");
  const ProgramResult cut = job.wait(60);
  CAPTURE(cut.output);
  check_failed(cut);
  CHECK(cut.seconds < 20);
  CHECK_THAT(cut.output, contains("lost communication") && contains("n2"));
}

TEST_CASE("a node whose ranks all stand still is named by those that wait for it", "[nodes]") {
  const Nodes nodes(3);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  struct Row {
    std::string hosts, frozen, named;
    int ranks;
  };
  const Row row = GENERATE(Row{"n1:2,n2:1", "n1", "error: n1 does not answer", 3},
                           Row{"n1:2,n2:2,n3:1", "n3", "error: n3 does not answer", 5});
  const TempDir dir;
  RunningProgram job(Nodes::mpirun(row.hosts, row.ranks) + kEndlessOnNodes + "--timeout_seconds 3" + in(dir));
  REQUIRE(becomes_true([&] { return saved_something(dir); }));
  Nodes::freeze(row.frozen);
  const ProgramResult run = job.wait(60);
  CAPTURE(row.hosts, row.frozen, run.output);
  CHECK(run.status == 1);
  // Of three nodes a second one may speak as well while mpirun ends the job.
  REQUIRE(run.output.find(row.named) != std::string::npos);
  CHECK(run.output.find("error: ") == run.output.find(row.named));
}

}  // namespace
}  // namespace cxtrain::test
