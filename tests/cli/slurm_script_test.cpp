#include "cxtrain/cli/slurm_script.h"

#include <sstream>
#include <string>
#include <vector>

#include "cxtrain/base/number_ranges.h"
#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/commands.h"
#include "cxtrain/cluster/slurm_time.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/own_strategies.h"

namespace cxtrain::test {
namespace {

using Words = std::vector<const char*>;

/// What `cxtrain_mpi slurm-script WORDS...` prints. Throws what it is refused for.
std::string script_of(const Words& words) {
  Words all{"slurm-script"};
  all.insert(all.end(), words.begin(), words.end());
  const ParsedCommandLine parsed = parse_command_line(all, read_text_file);
  std::ostringstream out;
  const int status =
      run_slurm_script(parsed.options, all, "/opt/cx train/cxtrain_mpi", out, testing::own_strategies(), {});
  CHECK(status == 0);
  return out.str();
}

std::string refusal_of(const Words& words) {
  return test::error_of<ConfigError>([&] { script_of(words); });
}

TEST_CASE("a batch script asks Slurm for what was asked for") {
  const std::string script =
      script_of({"--nodes", "4", "--gpus-per-node=8", "--cpus-per-task", "12", "--time", "2-00:00:00",
                 "--partition", "gpu", "--account", "abc", "--mem", "200G", "--signal", "USR1@300"});
  for (const char* request :
       {"--nodes=4", "--ntasks-per-node=8", "--gpus-per-node=8", "--cpus-per-task=12", "--time=2-00:00:00",
        "--partition=gpu", "--account=abc", "--mem=200G", "--signal=USR1@300", "--requeue",
        "--open-mode=append", "--output=slurm-%j.out", "--job-name=cxtrain"}) {
    CHECK_THAT(script, contains("#SBATCH " + std::string(request) + "\n"));
  }
  CHECK(script.find("--qos") == std::string::npos);
  CHECK_THAT(script, contains("program='/opt/cx train/cxtrain_mpi'\n"));
  CHECK_THAT(script, contains("export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK"));
  CHECK_THAT(script, contains("export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}"));
  CHECK_THAT(script, contains("srun --mpi=pmix --kill-on-bad-exit=1 \"$program\" fit "));
  CHECK_THAT(script, contains("srun --mpi=pmix \"$program\" doctor "));
  CHECK_THAT(script, contains("folder=\"runs/$SLURM_JOB_ID\"\n"));
  CHECK_THAT(script, contains("75) rm -f \"$folder/failures\" && scontrol requeue "));
}

TEST_CASE(
    "a batch script trains with the options of fit that stood on the command line, whatever is in them") {
  const std::string name = GENERATE("--ckpt_path", "--resume_from_checkpoint");
  const std::string script =
      script_of({"--model.hidden", "7", "--max_epochs=3", "--data.path", "it's a; $(folder)", "--nodes", "2",
                 "--optimizer.lr", "null", name.c_str(), "runs/a b", "--default_root_dir", "my runs"});
  CHECK_THAT(script, contains("options=(\n"
                              "  --model.hidden=7\n"
                              "  --max_epochs=3\n"
                              "  '--data.path=it'\\''s a; $(folder)'\n"
                              "  --optimizer.lr=null\n"
                              ")\n"));
  CHECK_THAT(script, contains("folder='my runs'\n"));
  CHECK_THAT(script, contains("from='runs/a b'\n"));
  CHECK_THAT(script, contains("-gt 0 ]; then from=auto; fi"));
}

TEST_CASE("a job without a limit of its time is one that sbatch takes") {
  const std::string time = GENERATE("0", "UNLIMITED");
  CHECK_THAT(script_of({"--time", time.c_str()}), contains("#SBATCH --time=" + time + "\n"));
}

TEST_CASE("each training of a job array has a folder of its own") {
  CHECK_THAT(script_of({"--array", "0-9%2"}),
             contains("folder=\"runs/${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"\n"));
  const std::string script = script_of({"--array", "1,2", "--default_root_dir", "out"});
  CHECK_THAT(script, contains("folder=out/\"$SLURM_ARRAY_TASK_ID\"\n"));
  CHECK_THAT(script, contains("#SBATCH --output=slurm-%A_%a.out\n"));
  CHECK_THAT(script, contains("scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\""));
}

TEST_CASE("a job that starts itself again is started without srun") {
  const std::string script = script_of({"--nodes", "2", "--ntasks-per-node", "3", "--max_restarts", "5"});
  CHECK_THAT(script, contains("\"$program\" fit --num_nodes 2 --devices 3 "));
  CHECK(script.find("--kill-on-bad-exit") == std::string::npos);
  CHECK_THAT(script, contains("  --max_restarts=5\n"));
}

TEST_CASE("a batch job that would be lost is refused before it is submitted") {
  struct Row {
    Words words;
    MessageCode reason;
    const char* value;
  };
  const Row row = GENERATE(values<Row>({
      {{"--nodes", "0"}, MessageCode::out_of_range, "nodes: 0"},
      {{"--gpus_per_node", "-1"}, MessageCode::out_of_range, "gpus_per_node: -1"},
      {{"--time", "soon"}, MessageCode::invalid_value, "time: 'soon'"},
      {{"--time", "2"}, MessageCode::out_of_range, "120 s"},
      {{"--signal", "USR1"}, MessageCode::invalid_value, "signal: 'USR1'"},
      {{"--signal", "B:USR1@60"}, MessageCode::invalid_value, "signal: 'B:USR1@60'"},
      {{"--signal", "USR2@60"}, MessageCode::conflicting_options, "SIGUSR2"},
      {{"--partition", "a --exclusive"}, MessageCode::invalid_value, "partition: 'a --exclusive'"},
      {{"--job-name", "a\nrm"}, MessageCode::invalid_value, "job_name: "},
      {{"--job-name", "../out"}, MessageCode::invalid_value, "job_name: '../out'"},
      {{"--job-name=--wrap=id"}, MessageCode::invalid_value, "job_name: '--wrap=id'"},
      {{"--job-name", ".hidden"}, MessageCode::invalid_value, "job_name: '.hidden'"},
      {{"--job-name="}, MessageCode::out_of_range, "200"},
      {{"--array", "a"}, MessageCode::invalid_value, "array: 'a'"},
      {{"--array", "1-2-3"}, MessageCode::invalid_value, "array: '1-2-3'"},
      {{"--mem", "G"}, MessageCode::invalid_value, "mem: 'G'"},
      {{"--mem=-1G"}, MessageCode::invalid_value, "mem: '-1G'"},
      {{"--max_epoch", "3"}, MessageCode::unknown_option, "max_epochs"},
      {{"--nodes", "2", "--num_nodes", "3"}, MessageCode::wrong_ranks, "3 nodes"},
      {{"--gpus-per-node", "4", "--devices", "8"}, MessageCode::no_device, "8 GPUs"},
      {{"--gpus-per-node", "4", "--strategy", "single"}, MessageCode::wrong_ranks, "single"},
      {{"--accelerator", "gpu"}, MessageCode::no_device, "accelerator=gpu"},
  }));
  CHECK_THAT(refusal_of(row.words), contains(code(row.reason)) && contains(row.value));
}

TEST_CASE("a signal that the ranks are told to save at is taken") {
  CHECK_THAT(script_of({"--signal", "USR2@60", "--requeue_signal", "SIGUSR2"}),
             contains("#SBATCH --signal=USR2@60\n"));
  CHECK_THAT(script_of({"--signal", "SIGTERM@60"}), contains("#SBATCH --signal=SIGTERM@60\n"));
}

TEST_CASE("numbers of digits have no sign") {
  CHECK(number_of_digits("60") == 60);
  for (const char* text : {"", "-0", "-1", "+1", "1 ", "0x1"}) CHECK_FALSE(number_of_digits(text));
}

TEST_CASE("times are read as sbatch does") {
  const auto minutes = [](double n) { return static_cast<std::int64_t>(60 * n); };
  CHECK(seconds_of_time("30") == minutes(30));
  CHECK(seconds_of_time("30:15") == minutes(30.25));
  CHECK(seconds_of_time("4:00:00") == minutes(240));
  CHECK(seconds_of_time("1-2") == minutes(26 * 60));
  CHECK(seconds_of_time("1-2:30") == minutes(26 * 60 + 30));
  CHECK(seconds_of_time("1-02:30:30") == minutes(26 * 60 + 30.5));
  for (const char* wrong : {"", "-", "1-", ":", "1:", "1:2:3:4", "1h", "-5", "1.5", "99999999999999999999"})
    CHECK_FALSE(seconds_of_time(wrong));
}

}  // namespace
}  // namespace cxtrain::test
