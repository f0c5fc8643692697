#include <ATen/ops/arange.h>

#include <filesystem>
#include <map>
#include <memory>

#include "checkpoint/weights_support.h"
#include "cxtrain/checkpoint/export_weights.h"
#include "cxtrain/checkpoint/weights.h"
#include "cxtrain/report/tensorboard/event_writer.h"
#include "fuzz/fuzz.h"
#include "support/environment_variable.h"

/// What lies about: runs' folders and files of weights that somebody else has written, and the environment.
namespace cxtrain::test {
namespace {

TEST_CASE("damaged folders of runs, which status and report read") {
  const std::vector<std::pair<std::string, std::string>> files{
      {"run.lock", R"({"host":"n1","process":"12","slurm_job":"7","slurm_restart":"0","restarter":""})"},
      {"run.json", R"({"status":"done","exit_code":0,"metrics":{"val_loss":0.5},"seconds":1.5})"},
      {"progress.json",
       R"({"time":1.7e9,"run":"r","host":"n1","ranks":4,"nodes":2,"epoch":1,"max_epochs":5,"batch":3,"batches":10,)"
       R"("step":13,"max_steps":-1,"steps_per_second":2.0,"samples_per_second":64.0,"seconds_left":18.0,)"
       R"("checkpoints":1,"checkpoint_folder":"","training":true,"metrics":{"train_loss":0.5,"nan":null}})"},
      {"events.jsonl",
       "{\"time\":1.7e9,\"event\":\"error\",\"rank\":0,\"text\":\"the last\"}\n"
       "{\"time\":1.7e9,\"event\":\"straggler\",\"rank\":0,\"step\":20,\"text\":\"rank 3 is slow\"}\n"
       "{\"time\":1.7e9,\"event\":\"resumed\",\"rank\":0,\"step\":20,\"text\":\"at step 20\"}\n"
       "{\"time\":1.7e9,\"event\":\"lr_found\",\"rank\":0,\"lr\":0.1,\"text\":\"\"}\n"},
      {"metrics.jsonl",
       "{\"step\":1,\"epoch\":0,\"train_loss\":0.5,\"lr-Adam\":1e-3}\n{\"step\":9,\"epoch\":1,\"val_loss\":"
       "null}\n"},
      {"metrics.csv", "epoch,step,train_loss\n0,1,0.5\n0,2,nan\n"},
      {"events.out.tfevents.1.h.1",
       tf_record(std::string("\x10\x01\x2a\x00", 4)) + tf_record(std::string("\x10\x02\x2a\x00", 4))},
      {"lr_find.csv", "lr,loss\n1e-8,2.3\n1e-3,1.9\n"}};
  const std::vector<std::string> words =
      json_words({"\x1b]0;title\x07",
                  "\xc2\x9b"
                  "31m",
                  "1e400", "-9223372036854775808", "true", "{\"a\":", std::string(2000, '['),
                  std::string(5000, 'x'), "checkpoint", "devices"});
  Random random(21);
  check_cases("status", 500, [&](const TempDir& folder) -> Case {
    const std::size_t damaged = random.below(files.size());
    std::string note;
    for (std::size_t i = 0; i < files.size(); ++i) {
      std::filesystem::remove_all(folder.file(files[i].first));
      if (i != damaged && random.one_in(3)) continue;
      const std::string text = i == damaged ? random.damage(files[i].second, words) : files[i].second;
      folder.write(files[i].first, text);
      if (i == damaged) note = files[i].first + " was: " + text.substr(0, 500);
    }
    folder.write("config.yaml", "");
    if (random.one_in(2)) return {{"report", folder.path()}, note};
    std::vector<std::string> arguments{"status", folder.path()};
    if (random.one_in(3)) arguments.emplace_back("--json");
    return {arguments, note};
  });
}

TEST_CASE("damaged files of weights, as the program is given them") {
  const TempDir whole;
  FaultyFilesystem memory;
  put_file(memory, "/w",
           safetensors_of({{"hidden.weight", at::arange(512, at::kFloat).view({8, 64})},
                           {"hidden.bias", at::arange(8, at::kFloat)},
                           {"output.weight", at::arange(80, at::kFloat).view({10, 8})},
                           {"output.bias", at::arange(10, at::kFloat)}}));
  const StoredWeights weights = open_weights(memory, "/w");
  RealFilesystem disk;
  write_safetensors(disk, whole.file("s"), weights);
  write_torch_file(disk, whole.file("t"), weights);
  const std::vector<std::string> texts{slurp(whole.file("s")), slurp(whole.file("t"))};
  const std::vector<std::string> words = json_words({"F32", "\"shape\":[-1]", "[0,99999999999]", "PK\x05\x06",
                                                     "PK\x01\x02", "\xff\xff\xff\xff", "hidden.bias"});
  Random random(22);
  check_cases("weights", 200, [&](const TempDir& folder) -> Case {
    const std::string file = folder.write("w", random.damage(random.of(texts), words));
    const std::vector<std::vector<std::string>> commands{
        {"checkpoint", "inspect", file},
        {"checkpoint", "inspect", file, "--json"},
        {"checkpoint", "export", file, "--safetensors", folder.file("out")},
        {"plan", "--model.hidden=8", "--model.weights=" + file}};
    const std::vector<std::string>& command = random.of(commands);
    return {command};
  });
}

TEST_CASE("odd variables of the environment") {
  const std::vector<std::string> names{"OMP_NUM_THREADS",
                                       "CUDA_VISIBLE_DEVICES",
                                       "CXTRAIN_PLUGIN_PATH",
                                       "CXTRAIN_DATA",
                                       "SLURM_NTASKS",
                                       "SLURM_NNODES",
                                       "SLURM_PROCID",
                                       "SLURM_STEP_ID",
                                       "SLURM_LOCALID",
                                       "SLURM_JOB_END_TIME",
                                       "SLURM_JOB_NODELIST",
                                       "SLURM_CPUS_PER_TASK",
                                       "SLURM_MPI_TYPE",
                                       "SLURM_RESTART_COUNT",
                                       "OMPI_COMM_WORLD_RANK",
                                       "PMIX_RANK",
                                       "PMI_RANK",
                                       "MPI_LOCALRANKID",
                                       "NCCL_DEBUG",
                                       "HOME",
                                       "TMPDIR",
                                       "LC_ALL",
                                       "COLUMNS"};
  const std::vector<std::string> values{"",
                                        "0",
                                        "-1",
                                        "1",
                                        "2147483648",
                                        "99999999999999999999",
                                        "null",
                                        "a,b",
                                        "n[1-",
                                        "n[1-3],m",
                                        "1e9",
                                        " 1",
                                        "\xff\xfe",
                                        "\x1b[31m",
                                        "/",
                                        "/dev/null",
                                        std::string(5000, '9'),
                                        std::string(3000, '[')};
  const std::vector<std::vector<std::string>> commands{
      {"plan"},
      {"plan", "--json", "--devices", "2", "--accelerator", "cpu"},
      {"--print_config"},
      {"info"},
      {"info", "--hardware", "--json"},
      {"slurm-script", "--nodes", "2"},
      {"--help"}};
  std::map<std::string, std::unique_ptr<EnvironmentVariable>> set;
  Random random(23);
  check_cases("environment", 200, [&](const TempDir&) -> Case {
    set.clear();
    std::string note;
    for (std::size_t n = 1 + random.below(3); n > 0; --n) {
      const std::string &name = random.of(names), &value = random.of(values);
      note += name + "=" + value.substr(0, 50) + " ";
      if (!set.contains(name)) set[name] = std::make_unique<EnvironmentVariable>(name.c_str(), value);
    }
    return {random.of(commands), note};
  });
}

}  // namespace
}  // namespace cxtrain::test
