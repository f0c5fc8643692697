#include "support/slurm.h"

#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/nodes.h"
#include "support/run_files.h"
#include "support/skip.h"

/// The project's batch scripts, submitted to a real Slurm with two nodes.
namespace cxtrain::test {
namespace {

const std::string kJobTraining = " --accelerator cpu --data.batch_size 8 --seed 3 ";

TEST_CASE(
    "the files of a cluster that was killed are in nobody's way, and their process numbers are not believed",
    "[slurm]") {
  const RunningProgram stranger("sleep 600");
  const std::string number = std::to_string(stranger.process());
  SetUpByScript::lock();  // no cluster is up now
  run_command(
      "mkdir -p /run/cxtrain-slurm /run/cxtrain-nodes && echo " + number +
      " | tee /run/cxtrain-slurm/slurmctld.pid /run/cxtrain-slurm/munged.pid > /run/cxtrain-nodes/n1.pid");
  {
    const SlurmCluster cluster;
    if (!cluster.why_not().empty()) return skip(cluster.why_not());
    CHECK(SlurmCluster::run("/", "sinfo --noheader --partition batch --format %D").output == "2\n");
    // One that lives stays.
    CHECK_THROWS_WITH(SlurmCluster(), contains("one already"));
    CHECK_THROWS_WITH(Nodes(1), contains("slurm/testcluster has them"));
    CHECK(SlurmCluster::run("/", "sinfo --noheader --partition batch --format %D").output == "2\n");
  }
  CHECK_FALSE(stranger.has_ended());
}

TEST_CASE("a batch job on two nodes trains as four ranks of one node do", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const auto begin = std::chrono::steady_clock::now();
  const std::string job = SlurmCluster::submit(
      dir.path(), "train.sbatch" + kJobTraining + "--max_epochs 3 --log_every_n_steps 1");
  const std::string rows = run_of(dir, job) + "metrics.csv";
  REQUIRE(becomes_true([&] { return !slurp(rows).empty(); }));
  std::printf("slurm: from sbatch to the first step of 4 ranks on 2 nodes: %.1f s\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(output_of(dir, job));
  REQUIRE(state == "COMPLETED");
  const nlohmann::json end = end_of(dir, job);
  CHECK(end["status"] == "done");
  CHECK(end["world_size"] == 4);
  CHECK_THAT(output_of(dir, job), contains("4 ranks on 2 nodes"));
  // Of the script's four hours, as squeue tells it.
  CHECK_THAT(output_of(dir, job), contains("ends in 143"));
  const ProgramResult same = run_ranks(4, kJobTraining + "--max_epochs 3" + in(dir));
  REQUIRE(same.status == 0);
  CHECK(end["global_step"] == run_json(dir)["global_step"]);
  const double loss = end["metrics"]["val_loss"], expected = run_json(dir)["metrics"]["val_loss"];
  CHECK(loss == Approx(expected).epsilon(1e-4));
}

TEST_CASE("a program that is started alone in a Slurm job trains on its nodes, and its status is the job's",
          "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  // salloc's shell is on a machine that is none of the job's nodes, the script of a batch job on the first of
  // them.
  const std::string program = kProgram + kJobTraining + "--max_epochs 1 --num_nodes 2";
  const ProgramResult here =
      SlurmCluster::run(dir.path(), "salloc --nodes=2 --ntasks-per-node=2 " + program + in(dir));
  CAPTURE(here.output);
  REQUIRE(here.status == 0);
  CHECK_THAT(here.output, contains("4 ranks on 2 nodes"));
  CHECK(run_json(dir)["world_size"] == 4);

  const ProgramResult too_many =
      SlurmCluster::run(dir.path(), "salloc --nodes=1 " + program + " --devices 2" + in(dir));
  CHECK(too_many.status == 2);
  CHECK_THAT(too_many.output,
             contains(code(MessageCode::wrong_ranks)) && contains("2 nodes") && contains("Slurm job "));

  // A rank that dies does not end the job: the program starts its step again.
  const std::string script = dir.write(
      "again.sh", "#!/bin/bash\nexec " + program + " --devices 2 --max_restarts 2 --default_root_dir " +
                      dir.path() + "/again " + "--max_epochs 8 --checkpoint.every_n_train_steps 10\n");
  const std::string job = SlurmCluster::sbatch(dir.path(), "--nodes=2 " + script);
  REQUIRE(becomes_true([&] { return newest_checkpoint(dir.path() + "/again").step > 0; }));
  pid_t rank = 0;
  for (const pid_t process : processes_of(dir)) {
    if (environment_of(process).find(std::string("PMIX_RANK=1") + '\0') != std::string::npos) rank = process;
  }
  REQUIRE(rank != 0);
  CHECK_THAT(environment_of(rank), contains("SLURM_PMIX_FENCE=ring"));
  kill(rank, SIGKILL);
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(output_of(dir, job));
  CHECK(state == "COMPLETED");
  CHECK_THAT(output_of(dir, job), contains("restart 1 of 2"));
}

TEST_CASE("a job that starts itself again saves when its starter is told to end, though srun would kill it",
          "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const std::string script =
      dir.write("again.sh", "#!/bin/bash\nexec " + kProgram + kJobTraining +
                                "--num_nodes 2 --devices 2 --max_restarts 2 --max_epochs -1 "
                                "--checkpoint.every_n_train_steps 10" +
                                in(dir) + "\n");
  const std::string job = SlurmCluster::sbatch(dir.path(), "--nodes=2 " + script);
  REQUIRE(becomes_true([&] { return newest_checkpoint(dir.path()).step > 0; }));
  REQUIRE(SlurmCluster::run(dir.path(), "scancel --signal=TERM --batch " + job).status == 0);
  const std::string state = SlurmCluster::wait(job);
  CAPTURE(output_of(dir, job));
  CHECK(state == "FAILED");  // by a status that is not 0
  CHECK(run_json(dir)["exit_code"] == 75);
  CHECK(newest_checkpoint(dir.path()).step == run_json(dir)["global_step"]);
  CHECK_THAT(output_of(dir, job), !contains("restart 1"));
}

TEST_CASE("a script that the program writes and submits trains, and its output is shown to the end",
          "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const ProgramResult submitted =
      SlurmCluster::run(dir.path(), kProgram + " slurm-script --nodes 2 --ntasks-per-node 2 --submit" +
                                        kJobTraining + "--max_epochs 1");
  CAPTURE(submitted.output);
  REQUIRE(submitted.status == 0);
  CHECK_THAT(submitted.output, contains(": RUNNING"));
  CHECK_THAT(submitted.output, contains("4 ranks on 2 nodes"));
  CHECK_THAT(submitted.output, contains("done: 1 epochs"));
  CHECK_THAT(submitted.output, contains(": COMPLETED"));
  const ProgramResult refused =
      SlurmCluster::run(dir.path(), kProgram + " slurm-script --partition nowhere --submit");
  CHECK(refused.status == 2);
  CHECK_THAT(refused.output, contains("sbatch refuses "));
}

/// The job of "job 7: 2 trainings on 1 node", by the nodes; empty: there is none.
std::string job_of_study(const std::string& output, const std::string& nodes) {
  std::smatch found;
  const std::regex line("job ([0-9]+): [0-9]+ trainings? on " + nodes + " node");
  return std::regex_search(output, found, line) ? found[1].str() : std::string();
}

TEST_CASE("a study submits a job for each number of nodes, and later those that are missing", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const std::string command =
      kProgram +
      " scaling --ranks 1,2,2 --nodes 1,1,2 --repeats 1 --out study --submit --time 10 "
      "--accelerator cpu --max_steps 20";
  const auto bad = SlurmCluster::run(dir.path(), command + " --mem much --model.width 3");
  CHECK(bad.status == 2);
  CHECK_THAT(bad.output, contains("--mem: 'much'") && contains("model.width"));

  SlurmCluster::run(dir.path(), "scontrol update NodeName=n1,n2 State=DRAIN Reason=test");
  const ProgramResult first = SlurmCluster::run(dir.path(), command);
  CAPTURE(first.output);
  REQUIRE(first.status == 0);
  const std::string one = job_of_study(first.output, "1"), two = job_of_study(first.output, "2");
  REQUIRE((!one.empty() && !two.empty()));
  const ProgramResult early = SlurmCluster::run(dir.path(), command);
  CHECK(early.status == 2);
  CHECK_THAT(early.output, contains("job " + one + " of this study has not ended"));
  REQUIRE(SlurmCluster::run(dir.path(), "scancel " + two).status == 0);
  SlurmCluster::run(dir.path(), "scontrol update NodeName=n1,n2 State=RESUME");
  const std::string state = SlurmCluster::wait(one);
  CAPTURE(SlurmCluster::about(one), slurp(dir.file("study/jobs/n1-" + one + ".out")));
  REQUIRE(state == "COMPLETED");

  const ProgramResult again = SlurmCluster::run(dir.path(), command);
  CAPTURE(again.output);
  REQUIRE(again.status == 0);
  CHECK(job_of_study(again.output, "1").empty());
  const std::string rest = job_of_study(again.output, "2");
  REQUIRE(!rest.empty());
  const std::string end = SlurmCluster::wait(rest);
  CAPTURE(SlurmCluster::about(rest), slurp(dir.file("study/jobs/n2-" + rest + ".out")));
  REQUIRE(end == "COMPLETED");
  const auto result = nlohmann::json::parse(slurp(dir.file("study/scaling.json")));
  REQUIRE(result["sizes"].size() == 3);
  for (const auto& size : result["sizes"]) {
    CAPTURE(size.dump());
    CHECK(size["rounds"].size() == 1);
    CHECK(size["failures"].empty());
  }
  CHECK_THAT(SlurmCluster::run(dir.path(), command).output, contains("nothing is missing"));

  // The first job starts while the others are submitted.
  const ProgramResult idle = SlurmCluster::run(dir.path(), command + " --out other");
  const std::string last = job_of_study(idle.output, "2");
  REQUIRE(!last.empty());
  SlurmCluster::wait(last);
  CAPTURE(slurp(dir.file("other/jobs/n1-" + job_of_study(idle.output, "1") + ".out")));
  for (const auto& size : nlohmann::json::parse(slurp(dir.file("other/scaling.json")))["sizes"])
    CHECK(size["rounds"].size() == 1);
}

TEST_CASE("ranks know their nodes in every distribution of tasks", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  struct Row {
    std::string options;
    std::vector<int> nodes;  // of the ranks
  };
  const TempDir dir;
  const std::string list = dir.write("nodes", "n1\nn2\nn2\nn1\n");
  for (const Row& row :
       {Row{"srun -N 2 --distribution=block --ntasks-per-node=2", {0, 0, 1, 1}},
        Row{"srun -N 2 --distribution=cyclic --ntasks-per-node=2", {0, 1, 0, 1}},
        Row{"srun -N 2 --distribution=plane=1 --ntasks-per-node=2", {0, 1, 0, 1}},
        Row{"env SLURM_HOSTFILE=" + list + " srun --distribution=arbitrary", {0, 1, 1, 0}}}) {
    const ProgramResult run = SlurmCluster::run(
        dir.path(), "env SLURM_PMIX_FENCE=ring " + row.options + " --mpi=pmix -n 4 " + kProgram +
                        " doctor --json --accelerator cpu" + in(dir) + " 2>" + dir.file("errors"));
    CAPTURE(row.options, run.status, run.output, slurp(dir.file("errors")));
    const std::size_t begin = run.output.find("{\"exit_code\"");
    REQUIRE(begin != std::string::npos);
    const nlohmann::json world =
        nlohmann::json::parse(run.output.substr(begin, run.output.find('\n', begin) - begin))["world"];
    CHECK(world["job"]["launcher"] == "srun");
    std::vector<int> nodes, in_order(2);
    for (const auto& rank : world["ranks"]) {
      const int node = rank["node"];
      nodes.push_back(node);
      CHECK(rank["local_rank"] == in_order[static_cast<std::size_t>(node)]++);
      CHECK(rank["environment"]["SLURM_PMIX_FENCE"] == "ring");
      CHECK(rank["host"] == world["nodes"][static_cast<std::size_t>(node)]["host"]);
    }
    CHECK(nodes == row.nodes);
  }
}

TEST_CASE("tasks without PMIx are refused with the cure", "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const ProgramResult run =
      SlurmCluster::run("/", std::string("srun --mpi=none -N 2 -n 4 ") + kProgram + kJobTraining);
  CAPTURE(run.output);
  CHECK(run.status != 0);
  CHECK_THAT(run.output, contains(code(MessageCode::wrong_mpi)) && contains("`srun --mpi=pmix`"));
}

TEST_CASE("a job array trains in a folder for each index, and jobs of one name one after the other",
          "[slurm]") {
  const SlurmCluster cluster;
  if (!cluster.why_not().empty()) return skip(cluster.why_not());
  const TempDir dir;
  const std::string array =
      SlurmCluster::submit(dir.path(), "array.sbatch" + kJobTraining + "--max_epochs 1");
  std::vector<std::string> chain;
  for (int i = 0; i < 2; ++i) {
    chain.push_back(SlurmCluster::sbatch(
        dir.path(),
        "--job-name=chain --dependency=singleton --nodes=1 --ntasks=2 --wrap \"srun --mpi=pmix -n 2 " +
            kProgram + " --ckpt_path auto --default_root_dir chain" + kJobTraining + "--max_epochs " +
            std::to_string(i + 1) + "\""));
  }
  for (const std::string& job : chain) CHECK(SlurmCluster::wait(job) == "COMPLETED");
  const auto end_in = [&](const std::string& root) {
    return nlohmann::json::parse(std::ifstream(dir.path() + "/" + root + "/cxtrain_logs/version_0/run.json"));
  };
  CHECK(end_in("chain")["epochs"] == 2);
  CHECK_FALSE(std::filesystem::exists(dir.path() + "/chain/cxtrain_logs/version_1"));
  std::set<double> losses;
  for (int index = 0; index < 4; ++index) {
    CHECK(SlurmCluster::wait(array + "_" + std::to_string(index)) == "COMPLETED");
    losses.insert(
        end_in("sweep/" + array + "/" + std::to_string(index))["metrics"]["train_loss"].get<double>());
  }
  CHECK(losses.size() == 4);  // each with its own learning rate
}

}  // namespace
}  // namespace cxtrain::test
