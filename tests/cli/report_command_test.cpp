#include "cxtrain/cli/report_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "cxtrain/cli/subcommands.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

/// A folder of runs on the disk.
class ReportedRuns {
 public:
  ReportedRuns() {
    std::filesystem::create_directories(run());
    dir_.write("cxtrain_logs/version_0/config.yaml", "seed: 1\n");
    dir_.write("cxtrain_logs/version_0/metrics.jsonl", "{\"step\":1,\"train_loss\":1}\n");
  }
  std::string run() const { return dir_.file("cxtrain_logs/version_0"); }
  std::string file(const std::string& name) const { return dir_.file(name); }
  const std::string& path() const { return dir_.path(); }
  const TempDir& dir() const { return dir_; }

 private:
  TempDir dir_;
};

std::string report(const std::vector<std::string>& words) {
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  std::ostringstream out;
  CHECK(run_report_command(pointers, real_filesystem(), 1.7e9, out) == 0);
  return out.str();
}

std::string refusal_of_report(const std::vector<std::string>& words) {
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  std::ostringstream out;
  try {
    run_report_command(pointers, real_filesystem(), 1.7e9, out);
  } catch (const ConfigError& error) {
    CHECK(error.code() == ExitCode::refused);
    CHECK(out.str().empty());
    return printed(error);
  }
  return "not refused";
}

TEST_CASE("report writes one file, by default into the first run's folder", "[cli]") {
  const ReportedRuns runs;
  CHECK_THAT(report({runs.run()}), contains(runs.run() + "/report.html: 1 run"));
  CHECK_THAT(slurp(runs.run() + "/report.html"), contains("<!DOCTYPE html>"));
  report({runs.path(), "--out", runs.file("other.html")});
  CHECK_THAT(slurp(runs.file("other.html")), contains("version_0"));
  report({runs.path(), runs.run(), "--out=" + runs.file("third.html")});
  CHECK(std::filesystem::exists(runs.file("third.html")));
  CHECK_THAT(report({"--help"}), contains("--out FILE"));
}

TEST_CASE("report refuses words and paths that mean nothing, all at once", "[cli]") {
  const ReportedRuns runs;
  CHECK_THAT(refusal_of_report({}), contains(code(MessageCode::missing_value)) && contains("report RUN"));
  CHECK_THAT(refusal_of_report({runs.run(), "--ot", "x"}),
             contains(code(MessageCode::unknown_option)) && contains("--ot:"));
  CHECK_THAT(refusal_of_report({runs.run(), "--out"}),
             contains(code(MessageCode::missing_value)) && contains("--out:"));
  CHECK_THAT(refusal_of_report({runs.run(), "--out="}),
             contains(code(MessageCode::missing_value)) && contains("--out:"));
  CHECK_THAT(refusal_of_report({runs.run(), "--out", "--x"}),
             contains(code(MessageCode::missing_value)) && contains("--out:"));
  const std::string both = refusal_of_report({runs.file("a"), runs.file("b")});
  CHECK_THAT(both, contains("'" + runs.file("a")));
  CHECK_THAT(both, contains("'" + runs.file("b")));
  CHECK_THAT(both, contains(code(MessageCode::file_failed)) && contains("default_root_dir"));
  CHECK_THAT(refusal_of_report(std::vector<std::string>(51, runs.run())),
             contains(code(MessageCode::out_of_range)) && contains("50 runs") && contains("51"));
  CHECK_THAT(refusal_of_report({runs.run() + std::string(5000, 'x')}), contains("report: "));
}

TEST_CASE("report writes only a file, and through no link", "[cli]") {
  const ReportedRuns runs;
  CHECK_THAT(refusal_of_report({runs.run(), "--out", "/dev/null"}),
             contains("--out: cannot write '/dev/null'"));
  CHECK_THAT(refusal_of_report({runs.run(), "--out", runs.path()}), contains("--out: cannot write"));
  CHECK_THAT(refusal_of_report({runs.run(), "--out", runs.file("no/folder.html")}),
             contains("--out: cannot write"));
  runs.dir().write("kept", "kept");
  REQUIRE(symlink(runs.file("kept").c_str(), (runs.run() + "/report.html").c_str()) == 0);
  CHECK_THAT(refusal_of_report({runs.run()}), contains("symbolic link"));
  REQUIRE(mkfifo(runs.file("pipe").c_str(), 0600) == 0);
  CHECK_THAT(refusal_of_report({runs.run(), "--out", runs.file("pipe")}), contains("not a device"));
  CHECK(slurp(runs.file("kept")) == "kept");
  for (const auto& entry : std::filesystem::directory_iterator(runs.run()))
    CHECK(entry.path().string().find(".part") == std::string::npos);
}

TEST_CASE("report of a million rows is small", "[cli]") {
  const ReportedRuns runs;
  std::string text;
  for (int step = 0; step < 1'000'000; ++step)
    text += "{\"step\":" + std::to_string(step) + ",\"train_loss\":" + std::to_string(step % 97) + "}\n";
  runs.dir().write("cxtrain_logs/version_0/metrics.jsonl", text);
  report({runs.run()});
  const std::string page = slurp(runs.run() + "/report.html");
  CHECK(page.size() < 200'000);
  CHECK_THAT(page, contains(">1000000</td>"));
  CHECK_THAT(page, contains("class=\"band\""));
}

TEST_CASE("report is among the commands that need no ranks", "[cli]") {
  const Subcommand* const report = find_subcommand("report");
  REQUIRE(report != nullptr);
  CHECK(report->run != nullptr);
}

}  // namespace
}  // namespace cxtrain::test
