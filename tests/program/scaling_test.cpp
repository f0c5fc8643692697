#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_files.h"
#include "support/running_program.h"

/// `cxtrain_mpi scaling`, with trainings by the program.
namespace cxtrain::test {
namespace {

const std::string kFit = " --accelerator cpu --max_steps 40 --data.batch_size 16 ";

nlohmann::json result_in(const std::string& folder) {
  return nlohmann::json::parse(slurp(folder + "/scaling.json"));
}

TEST_CASE("a study trains on each number of ranks, and writes its reports") {
  const TempDir dir;
  const std::string folder = dir.file("study");
  const std::string mode = GENERATE("weak", "strong");
  const ProgramResult study =
      run_program("scaling --ranks 1,2 --repeats 2 --mode " + mode + " --out " + folder + kFit);
  CAPTURE(mode, study.output);
  REQUIRE(study.status == 0);
  CHECK_THAT(study.output, contains("round 2 of 2, 2 ranks: "));
  const nlohmann::json result = result_in(folder);
  CHECK(result["points"].size() == 4);
  CHECK(result["sizes"][1]["samples_per_step"] == (mode == "weak" ? 32 : 16));
  CHECK(result["sizes"][1]["efficiency"]["value"] > 0);
  CHECK_THAT(slurp(folder + "/report.md"), contains("| 2 | 1 | "));
  CHECK_THAT(slurp(folder + "/report.html"), contains("perfect scaling"));
  const std::string csv = slurp(folder + "/scaling.csv");
  CHECK(std::count(csv.begin(), csv.end(), '\n') == 5);

  // Nothing is measured twice; more rounds and sizes are added.
  const ProgramResult more =
      run_program("scaling --ranks 1,2,4 --repeats 2 --mode " + mode + " --out " + folder + kFit);
  CAPTURE(more.output);
  REQUIRE(more.status == 0);
  CHECK(more.output.find("of 2, 2 ranks: ") == std::string::npos);
  CHECK(result_in(folder)["points"].size() == 6);
  CHECK(result_in(folder)["sizes"][1] == result["sizes"][1]);
  const ProgramResult again = run_program("scaling collect --json --from " + folder);
  CHECK(nlohmann::json::parse(again.output)["sizes"] == result_in(folder)["sizes"]);

  // A training that the study has not started itself.
  const nlohmann::json sizes = result_in(folder)["sizes"];
  std::filesystem::remove(folder + "/points/r2-n1-k1/point.json");
  CHECK(run_program("scaling collect --from " + folder).status == 0);
  CHECK(result_in(folder)["sizes"] == sizes);

  // A machine with other cores than those of the study's.
  const nlohmann::json cores = result_in(folder)["cores"];
  CHECK(cores >= 1);
  CHECK(run_command("taskset --cpu-list $(taskset -cp $$ | grep -o \"[0-9]*$\") " + kProgram +
                    " scaling collect --from " + folder)
            .status == 0);
  CHECK(result_in(folder)["cores"] == cores);

  std::filesystem::remove(folder + "/report.html");
  CHECK(run_program("scaling report --from " + folder).status == 0);
  CHECK(std::filesystem::exists(folder + "/report.html"));
  const ProgramResult predicted = run_program("scaling predict --from " + folder + " --to 100");
  CHECK(predicted.status == 2);
  CHECK_THAT(predicted.output, contains("100 ranks: is more than 16 times the largest measured size, 4"));
  const std::string elsewhere = "scaling predict --from " + folder + " --to 8 --network ";
  CHECK_THAT(run_program(elsewhere + dir.file("none.json")).output, contains("--network: there is no file"));
  CHECK_THAT(run_program(elsewhere + folder + "/study.json").output,
             contains("no sums over several nodes were measured"));
}

TEST_CASE("a network is measured, by ranks that the program starts or mpirun has started") {
  const TempDir dir;
  const std::string file = dir.file("net.json");
  const bool by_mpirun = GENERATE(false, true);
  const std::string words = "scaling network --out " + file;
  const ProgramResult measured = by_mpirun ? run_ranks(3, words) : run_program(words + " --ranks 2");
  CAPTURE(by_mpirun, measured.output);
  REQUIRE(measured.status == 0);
  CHECK_THAT(measured.output, contains("all-reduce of   4 KiB"));
  const auto network = nlohmann::json::parse(slurp(file));
  CHECK(network["ranks"] == (by_mpirun ? 3 : 2));
  REQUIRE(network["links"].size() == 1);  // one node
  for (const auto& each : network["links"][0]["one_way"]) CHECK(each["seconds"] > 0);
  for (const auto& each : network["all_reduce"]) CHECK(each["seconds"] > 0);
  CHECK(run_program("scaling network --ranks 1 --out " + file).status == 2);
  CHECK(run_program("scaling network --repeats 3").status == 2);
}

TEST_CASE("plan takes the time of a step from a study") {
  const TempDir dir;
  const std::string folder = dir.file("study");
  REQUIRE(run_program("scaling --ranks 1,2 --repeats 1 --out " + folder + kFit).status == 0);
  const std::string plan = "plan --accelerator cpu --estimate --max_steps 1000 --json --from ";
  const auto measured = nlohmann::json::parse(run_program(plan + folder + " --ranks 2").output)["estimate"];
  CHECK(measured["basis"] == "measured");
  CHECK(measured["step_seconds"] == result_in(folder)["sizes"][1]["step_seconds"]);
  CHECK(measured["core_hours"] > 0);
  const auto unknown = nlohmann::json::parse(run_program(plan + folder + " --ranks 4").output)["estimate"];
  CHECK_THAT(unknown["refusal"].get<std::string>(), contains("three measured sizes"));
  const auto other = nlohmann::json::parse(
      run_program(plan + folder + " --ranks 2 --precision bf16-mixed").output)["estimate"];
  CHECK_THAT(other["refusal"].get<std::string>(), contains("bf16-mixed"));
  CHECK_THAT(run_program("plan --accelerator cpu --estimate").output, contains("cxtrain_mpi scaling"));
  const ProgramResult for_nothing = run_program("plan --accelerator cpu --from " + folder);
  CHECK(for_nothing.status == 2);
  CHECK_THAT(for_nothing.output, contains("add --estimate"));
  const ProgramResult alone = run_program("scaling --ranks 2 --nodes 2 --out " + folder + "/nodes");
  CHECK(alone.status == 2);
  CHECK_THAT(alone.output, contains("in a Slurm job of 2 nodes"));
  CHECK_THAT(run_program("scaling network --ranks 2 --nodes 2").output,
             contains("--nodes: 2 nodes asked for"));
  CHECK(run_program(plan + dir.path()).status == 2);
}

TEST_CASE("a study that is killed or interrupted goes on where it was") {
  const TempDir dir;
  const std::string folder = dir.file("study");
  const std::string words = " scaling --ranks 1,2 --repeats 3 --out " + folder + kFit;
  const auto points = [&] {
    std::size_t found = 0;
    for (const auto& each : std::filesystem::recursive_directory_iterator(dir.path()))
      found += each.path().filename() == "point.json" ? 1 : 0;
    return found;
  };
  {
    RunningProgram study(kProgram + words);
    REQUIRE(becomes_true([&] { return std::filesystem::exists(folder) && points() >= 1; }));
    kill(study.process(), SIGKILL);  // its training ends with it
  }
  REQUIRE(points() < 6);
  {
    RunningProgram study(kProgram + words);
    const std::size_t before = points();
    REQUIRE(becomes_true([&] { return points() > before; }));
    kill(study.process(), SIGINT);
    CHECK(study.wait().status == 128 + SIGINT);
  }
  const ProgramResult finished = run_program(words);
  CAPTURE(finished.output);
  REQUIRE(finished.status == 0);
  CHECK(points() == 6);
  CHECK(result_in(folder)["points"].size() == 6);
}

TEST_CASE("a study that cannot be run is refused before anything is trained") {
  const TempDir dir;
  const auto refused = [&](const std::string& words) {
    const ProgramResult asked = run_program("scaling " + words + " --out " + dir.file("s") + kFit);
    CAPTURE(words, asked.output);
    CHECK(asked.status == 2);
    CHECK_FALSE(std::filesystem::exists(dir.file("s")));
    return asked.output;
  };
  CHECK_THAT(refused(""), contains("--ranks: is missing"));
  CHECK_THAT(refused("--ranks 1,x --repeats 0 --mode even"),
             contains("4 problems") || contains("3 problems"));
  CHECK_THAT(refused("--ranks 0"), contains(code(MessageCode::out_of_range)));
  CHECK_THAT(refused("--ranks 1,2 --devices 2"), contains("--devices: the study sets this option"));
  CHECK_THAT(refused("--ranks 1,3 --mode strong"), contains("cannot be divided among 3 ranks"));
  CHECK_THAT(refused("--ranks 2,3 --nodes 1,2"), contains("2 nodes do not divide 3 ranks"));
  CHECK_THAT(refused("--ranks 1 --logger false --fast_dev_run 1 --ckpt_path x"), contains("3 problems"));
  CHECK_THAT(refused("--ranks 1,2 --to 3"), contains(code(MessageCode::unknown_option)));
  CHECK_THAT(refused("--ranks="), !contains("is missing\n") && contains("a value is missing"));
  CHECK_THAT(refused("--ranks 1,2 --no_such_option 3"), contains(code(MessageCode::unknown_option)));
  CHECK_THAT(refused("--ranks 1,2 --model no_such_model"),
             contains("with 1 rank:") && contains("no_such_model"));
  CHECK(run_program("scaling predict --from " + dir.path() + " --to 8").status == 2);
  CHECK(run_program("scaling report --frm x").status == 2);

  const std::string folder = dir.file("study");
  REQUIRE(run_program("scaling --ranks 1 --repeats 1 --out " + folder + kFit).status == 0);
  const ProgramResult other =
      run_program("scaling --ranks 1 --repeats 1 --out " + folder + kFit + "--seed 3");
  CHECK(other.status == 2);
  CHECK_THAT(other.output, contains("has other options: --accelerator=cpu"));

  // What a file of the study says is not trusted.
  const std::string point = folder + "/points/r1-n1-k1/point.json";
  for (const char* text :
       {"{}", "{\"ranks\":1,\"nodes\":1,\"repeat\":1,\"step_seconds\":-1}", "[", "{\"ranks\":7}"}) {
    CAPTURE(text);
    std::ofstream(point) << text;
    const ProgramResult collected = run_program("scaling collect --from " + folder);
    CHECK(collected.status == 2);
    CHECK_THAT(collected.output, contains("point.json"));
  }
  std::ofstream(folder + "/study.json") << R"({"repeats":1000000000,"sizes":[{"ranks":1}]})";
  CHECK(run_program("scaling collect --from " + folder).status == 2);
}

TEST_CASE("a study takes options that only fit has, and config files whose content stays") {
  const TempDir dir;
  const std::string folder = dir.file("study"), config = dir.file("fit.yaml");
  std::ofstream(config) << "trainer:\n  max_steps: 5\n";
  const std::string words = "scaling --ranks 1 --repeats 1 --accelerator cpu --max_restarts 1 --config " +
                            config + " --out " + folder;
  const ProgramResult study = run_program(words);
  CAPTURE(study.output);
  REQUIRE(study.status == 0);
  CHECK(result_in(folder)["points"][0]["steps"] == 5);
  std::ofstream(config) << "trainer:\n  max_steps: 6\n";
  const ProgramResult changed = run_program(words);
  CHECK(changed.status == 2);
  CHECK_THAT(changed.output, contains("another content of the --config files"));
}

TEST_CASE("a training that fails twice is in the report, and the study goes on") {
  const TempDir dir;
  const std::string folder = dir.file("study");
  const ProgramResult study = run_program("scaling --ranks 1,2 --repeats 1 --out " + folder +
                                          " --accelerator cpu --max_steps 20 " + kFaulty);
  CAPTURE(study.output);
  CHECK(study.status == 1);
  CHECK_THAT(study.output,
             contains("2 ranks: failed, exit status 1, see " + folder + "/points/r2-n1-k1/output.log"));
  CHECK_THAT(study.output, contains("With 2 ranks 1 training failed"));
  const std::string log = slurp(folder + "/points/r2-n1-k1/output.log");
  CHECK(log.find("the well is dry") != log.rfind("the well is dry"));  // it was tried twice
  CHECK(result_in(folder)["sizes"][0]["rounds"].size() == 1);
  CHECK(std::filesystem::exists(folder + "/report.html"));
}

}  // namespace
}  // namespace cxtrain::test
