#include <cctype>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "cxtrain/cli/option_table.h"
#include "support/catch.h"
#include "support/temp_dir.h"

/// What README.md and docs/ name is there: files, headings, options.
namespace cxtrain::test {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = CXTRAIN_SOURCE_DIR;

std::vector<fs::path> documents() {
  std::vector<fs::path> found{kRoot / "README.md", kRoot / "SECURITY.md", kRoot / "CONTRIBUTING.md",
                              kRoot / "CHANGELOG.md", kRoot / "benchmarks/RESULTS.md"};
  for (const auto& entry : fs::directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") found.push_back(entry.path());
  }
  return found;
}

std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
    found.push_back((*at)[1]);
  return found;
}

/// As GitHub names a heading in a link: "In one page, again" -> "in-one-page-again".
std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ' || c == '-')
      anchor += '-';
    else if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

bool has_heading(const fs::path& document, const std::string& anchor) {
  std::istringstream lines(slurp(document));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t text = line.find_first_not_of('#');
    if (text == 0 || text == std::string::npos || line[text] != ' ') continue;
    if (anchor_of(line.substr(text + 1)) == anchor) return true;
  }
  return false;
}

/// Options of other programs, and of cxtrain's subcommands and scripts, which check their own.
const std::set<std::string> kOthers{
    // mpirun, srun, sbatch, timeout
    "mca", "bind-to", "cpu-bind", "oversubscribe", "hostfile", "mpi", "cpus-per-task", "signal", "nodes",
    "kill-on-bad-exit", "gpus-per-node", "gpus-per-task", "ntasks-per-node", "overlap", "wrap",
    "disable-status", "dependency", "time", "job-name", "format", "preserve-status",
    // cmake, apptainer
    "preset", "build", "target", "install", "prefix", "nv", "bind", "build-arg",
    // subcommands
    "json", "all", "safetensors", "torch", "submit", "out", "ranks", "ranks-per-node", "hardware", "repeats",
    "mode", "from", "to", "network",
    // read before the table
    "help", "version", "config", "print_config",
    // scripts and benchmarks
    "report", "libtorch", "kills", "only", "pairs", "rounds", "files", "messages", "against"};

/// Of a component, whose arguments are checked where it is registered: `--model.hidden`.
const std::set<std::string> kSections{"model",     "data",         "strategy",   "callbacks", "loggers",
                                      "optimizer", "lr_scheduler", "checkpoint", "ddp"};

bool is_known(std::string option) {
  if (kOthers.contains(option)) return true;
  if (option.starts_with("trainer.")) option = option.substr(8);
  if (option == "NAME" || find_option(option) != nullptr) return true;
  return kSections.contains(option.substr(0, option.find('.')));
}

TEST_CASE("links of the documents lead to files and headings that are there", "[documents]") {
  const std::regex link(R"(\]\(([^)\s]+)\))");
  std::size_t links = 0;
  for (const fs::path& document : documents()) {
    for (const std::string& target : matches(slurp(document), link)) {
      if (target.starts_with("http")) continue;
      CAPTURE(document.filename().string(), target);
      const std::size_t hash = target.find('#');
      const std::string name = target.substr(0, hash);
      const fs::path file = name.empty() ? document : document.parent_path() / name;
      CHECK(fs::exists(file));
      if (hash != std::string::npos) CHECK(has_heading(file, target.substr(hash + 1)));
      ++links;
    }
  }
  CHECK(links > 30);
}

TEST_CASE("options that the documents name are there", "[documents]") {
  const std::regex option(R"((?:^|[\s`(|])--([a-zA-Z][a-zA-Z0-9_.-]*[a-zA-Z0-9]))");
  std::size_t options = 0;
  for (const fs::path& document : documents()) {
    for (const std::string& name : matches(slurp(document), option)) {
      CAPTURE(document.filename().string(), name);
      CHECK(is_known(name));
      ++options;
    }
  }
  CHECK(options > 200);
}

TEST_CASE("an option, a link or a heading that is not there is found", "[documents]") {
  CHECK_FALSE(is_known("max_epoch"));
  CHECK(is_known("max_epochs"));
  CHECK(is_known("trainer.max_epochs"));
  CHECK(has_heading(kRoot / "README.md", "install-without-root"));
  CHECK_FALSE(has_heading(kRoot / "README.md", "install-with-root"));
}

}  // namespace
}  // namespace cxtrain::test
