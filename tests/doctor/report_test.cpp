#include "doctor/worlds_support.h"
#include "support/catch.h"

namespace cxtrain::test {
namespace {

using doctor::Severity;

doctor::Diagnosis of(const std::string& base, const std::string& changes) {
  return doctor::diagnose(changed_world(base, changes));
}

constexpr const char* kOneWarning = R"({"/ranks/1/open_files": 100})";
constexpr const char* kWarningAndError =
    R"({"/ranks/1/open_files": 100, "/nodes/0/output/writable": false, "/ranks/*/core_bytes": -1})";

TEST_CASE("the exit status tells the worst finding") {
  CHECK(of("cpu_node", "{}").exit_code == 0);
  CHECK(of("cpu_node", R"({"/job/resume_from": "a.ckpt"})").exit_code == 0);  // a note
  CHECK(of("cpu_node", kOneWarning).exit_code == 1);
  CHECK(of("cpu_node", kWarningAndError).exit_code == 2);
  CHECK(doctor::diagnose({}).exit_code == 0);  // nothing is known
}

TEST_CASE("every check has one finding at least, with its id") {
  const doctor::Diagnosis diagnosis = of("cpu_node", "{}");
  const std::vector<doctor::Check> checks = doctor::all_checks();
  REQUIRE(diagnosis.findings.size() == checks.size());
  for (std::size_t i = 0; i < checks.size(); ++i) CHECK(diagnosis.findings[i].check == checks[i].id);
}

TEST_CASE("the report begins with what is worst, and says what to do") {
  const std::string text = to_text(of("cpu_node", kWarningAndError));
  CHECK(
      text.starts_with("error: The output folder cannot be written (output.writable)\n"
                       "  found: /scratch/runs cannot be written (cpu001)\n"
                       "  why:   Nothing of the run would be kept.\n"
                       "  fix:   choose another --default_root_dir"));
  CHECK_THAT(text, contains("warning: Few open files are allowed (limits.files)\n"
                            "  found: at most 100 of open files (rank 1)\n"));
  CHECK(text.find("error:") < text.find("warning:"));
  CHECK_THAT(text, contains(" fine, 1 warning, 1 error\n"));
  CHECK_THAT(text, !contains("cores.shared"));
}

TEST_CASE("the report counts what is not known, and lists everything where it is asked to") {
  const doctor::Diagnosis diagnosis = of("cpu_node", R"({"/nodes/0/load": null, "/ranks/*/core_bytes": -1})");
  const std::string few = to_text(diagnosis), all = to_text(diagnosis, true);
  const auto checks = std::to_string(doctor::all_checks().size());
  const auto fine = std::to_string(doctor::all_checks().size() - 1);
  CHECK(few == checks + " checks: " + fine + " fine, 1 not known\n");
  CHECK_THAT(all, contains("not known  host.load: the nodes' load\n"));
  CHECK_THAT(all, contains("fine       cores.shared\n"));
}

TEST_CASE("the report in JSON has every check and the world") {
  const doctor::Recording world = changed_world("cpu_node", kOneWarning);
  const std::string text = to_json(doctor::diagnose(world), world);
  CHECK(text.find('\n') == std::string::npos);
  const WorldJson json = WorldJson::parse(text);
  CHECK(json["exit_code"] == 1);
  CHECK(json["checks"].size() == doctor::all_checks().size());
  int warnings = 0;
  for (const WorldJson& check : json["checks"]) {
    for (const char* field : {"id", "severity", "title", "found", "why", "fix"}) CHECK(check.contains(field));
    if (check["severity"] != "warning") continue;
    ++warnings;
    CHECK(check["id"] == "limits.files");
    CHECK_THAT(check["fix"].get<std::string>(), contains("ulimit -n"));
  }
  CHECK(warnings == 1);
  CHECK(json["world"]["ranks"][1]["open_files"] == 100);
}

TEST_CASE("what a training is refused for is an error beside what the checks find") {
  doctor::Diagnosis diagnosis;
  doctor::add_refusal({"data.path", "there is nothing", "name a file"}, diagnosis);
  CHECK(diagnosis.exit_code == 2);
  const std::string text = doctor::to_text(diagnosis);
  CHECK_THAT(text, contains("(options.data.path)"));
  CHECK_THAT(text, contains("there is nothing"));
  CHECK_THAT(text, contains("name a file"));
  CHECK_THAT(doctor::to_json(diagnosis, {}), contains("options.data.path"));
}

}  // namespace
}  // namespace cxtrain::test
