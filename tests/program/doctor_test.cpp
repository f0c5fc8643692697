#include <filesystem>
#include <fstream>

#include "support/catch.h"
#include "support/nodes.h"
#include "support/run_files.h"
#include "support/skip.h"

/// `cxtrain_mpi doctor` in worlds of this machine. What the checks find in others: tests/doctor.
namespace cxtrain::test {
namespace {

/// What mpirun says of the exit status may come in the middle of a long line.
const std::string kAlone = " 2>/dev/null";

nlohmann::json json_in(const std::string& output) {
  const std::size_t begin = output.find("{\"exit_code\"");
  REQUIRE(begin != std::string::npos);
  return nlohmann::json::parse(output.substr(begin, output.find('\n', begin) - begin));
}

/// The severity of what a check has found; the worst of several.
std::string severity_of(const nlohmann::json& diagnosis, const std::string& check) {
  std::string worst = "absent";
  for (const auto& finding : diagnosis["checks"]) {
    if (finding["id"] != check) continue;
    if (worst == "absent" || finding["severity"] == "error") worst = finding["severity"];
  }
  return worst;
}

TEST_CASE("the doctor looks at every rank and node within seconds") {
  const TempDir dir;
  const int ranks = GENERATE(1, 2);
  const ProgramResult run = run_ranks(ranks, "doctor --json --accelerator cpu" + in(dir) + kAlone);
  CAPTURE(run.output);
  CHECK(run.seconds < 20);  // five on a quiet machine
  const nlohmann::json diagnosis = json_in(run.output);
  CHECK(run.status == diagnosis["exit_code"]);
  CHECK(diagnosis["checks"].size() >= 30);
  CHECK(diagnosis["world"]["ranks"].size() == static_cast<std::size_t>(ranks));
  CHECK(diagnosis["world"]["nodes"].size() == 1);
  CHECK(std::filesystem::is_empty(dir.path()));  // nothing is left behind
}

TEST_CASE("the doctor finds what is wrong with options, and starts ranks that are not there") {
  const TempDir dir;
  const ProgramResult mistyped = run_program("doctor --max_epoch 3" + in(dir));
  CHECK(mistyped.status == 2);
  CHECK_THAT(mistyped.output, contains("max_epochs"));
  const ProgramResult data =
      run_program("doctor --json --accelerator cpu --model mnist --data.path /nowhere" + in(dir) + kAlone);
  CAPTURE(data.output);
  CHECK(data.status == 2);
  CHECK(severity_of(json_in(data.output), "options.data") == "error");
  const ProgramResult place = run_program(
      "doctor --json --accelerator cpu --ckpt_path 5 --checkpoint.dirpath /proc/x "
      "--callbacks.prometheus.path /proc/y/z" +
      in(dir) + kAlone);
  CAPTURE(place.output);
  CHECK(place.status == 2);
  const nlohmann::json places = json_in(place.output);
  CHECK(severity_of(places, "options.ckpt_path") == "error");
  CHECK(severity_of(places, "output.places") == "warning");
  CHECK(places["world"]["job"]["unwritable"].size() == 2);
  const ProgramResult started = run_program("doctor --json --accelerator cpu --devices 2" + in(dir) + kAlone);
  CAPTURE(started.output);
  CHECK(json_in(started.output)["world"]["ranks"].size() == 2);
  CHECK(severity_of(json_in(started.output), "mpi.settings") == "ok");  // what the program sets itself
}

TEST_CASE("no byte of a folder's name steers the terminal of who asks the doctor") {
  const TempDir dir;
  const std::string checkpoint = dir.path() + "/cxtrain_logs/version_0/checkpoints/\033]0;name\a.ckpt";
  std::filesystem::create_directories(checkpoint);
  std::ofstream(checkpoint + "/manifest.json") << "{}";
  const ProgramResult run = run_program("doctor --accelerator cpu" + in(dir));
  CAPTURE(run.output);
  CHECK_THAT(run.output, contains("damaged"));
  CHECK(run.output.find('\033') == std::string::npos);
}

TEST_CASE("the doctor finds a fault that one node has only", "[nodes]") {
  const Nodes nodes(2);
  if (!nodes.why_not().empty()) return skip(nodes.why_not());
  const TempDir dir;
  const std::string doctor =
      Nodes::mpirun("n1:2,n2:2", 4) + "doctor --json --accelerator cpu" + in(dir) + kAlone;
  const nlohmann::json before = json_in(run_command(doctor).output);
  CHECK(severity_of(before, "output.shared") == "ok");
  CHECK(before["world"]["nodes"].size() == 2);
  // The second node has another folder under the same name.
  REQUIRE(run_command(Nodes::on("n2", "mount -t tmpfs tmpfs " + dir.path())).status == 0);
  const ProgramResult after = run_command(doctor);
  CAPTURE(after.output);
  CHECK(severity_of(json_in(after.output), "output.shared") == "error");
  for (const auto& finding : json_in(after.output)["checks"]) {
    if (finding["id"] == "output.shared") CHECK_THAT(finding["found"].get<std::string>(), contains("n2"));
  }
}

}  // namespace
}  // namespace cxtrain::test
