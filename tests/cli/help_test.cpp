#include "cxtrain/cli/help.h"

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/callbacks/built_in.h"
#include "cxtrain/cli/help_topics.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/subcommands.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/run_program.h"
#include "support/temp_dir.h"

namespace cxtrain::test {
namespace {

HelpSource source_of(std::size_t width) {
  Registry registry;
  register_built_in(registry);
  return {"cxtrain_mpi", {}, {}, component_sections(registry, {}), width};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// A line may be longer than the page if it is an option with its value.
bool fits(const std::string& line, std::size_t width) {
  static const std::regex option(" *--[^ ]+ [^ ]+");
  return line.size() <= width || std::regex_match(line, option);
}

TEST_CASE("the brief help is one screen, and has every subcommand", "[help]") {
  const std::string text = brief_help("cxtrain_mpi", {}, 80);
  const std::vector<std::string> lines = lines_of(text);
  CHECK(lines.size() <= 40);
  for (const std::string& line : lines) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
  }
  for (const Subcommand& subcommand : subcommands()) {
    CAPTURE(subcommand.name);
    CHECK_THAT(text, contains("\n  " + subcommand.name + " "));
  }
}

TEST_CASE("help has the width of the terminal", "[help]") {
  for (const std::size_t width : {60, 80, 120}) {
    const HelpSource source = source_of(width);
    for (const std::string& text :
         {subcommand_help("fit", source), subcommand_help("slurm-script", source), help_on("devices", source),
          help_on("max_epochs", source), help_on("doctor-checks", source), components_text(source)}) {
      for (const std::string& line : lines_of(text)) {
        CAPTURE(width, line);
        CHECK(fits(line, width));
      }
    }
  }
}

TEST_CASE("a subcommand's help has its own options first, and older names are on their own page", "[help]") {
  const HelpSource source = source_of(100);
  const std::string fit = subcommand_help("fit", source), plan = subcommand_help("plan", source);
  for (const char* part :
       {"--max_epochs N", "\nDevices and strategy\n", "[digits]", "\nOptimizers (--optimizer)\n"})
    CHECK_THAT(fit, contains(part));
  for (const char* part : {"--ranks_per_node", "--weights_summary", "--job_name"})
    CHECK_THAT(fit, !contains(part));
  CHECK_THAT(plan, contains("--ranks_per_node N") && contains("fit --help") && !contains("--max_epochs N"));
  CHECK_THAT(help_on("older", source), contains("--weights_summary top|null") && !contains("--max_epochs"));
}

TEST_CASE("every subcommand with a grammar of its own has its command, and the reverse", "[help]") {
  for (const Subcommand& subcommand : subcommands()) {
    CAPTURE(subcommand.name);
    CHECK((subcommand.kind == Subcommand::Kind::files) == (subcommand.run != nullptr));
  }
}

TEST_CASE("help explains every topic, subcommand, option and component", "[help]") {
  const HelpSource source = source_of(100);
  for (const HelpTopic& topic : help_topics()) {
    CAPTURE(topic.name);
    CHECK(lines_of(help_on(topic.name, source)).size() > 5);
  }
  for (const Subcommand& subcommand : subcommands())
    CHECK_THAT(help_on(subcommand.name, source), contains(subcommand.name));
  for (const std::string& option : option_names()) {
    if (find_option(option) == nullptr || option == "devices") continue;
    CAPTURE(option);
    CHECK_THAT(help_on(option, source), contains("subcommands"));
  }
  CHECK_THAT(help_on("--max-epochs", source),
             contains("--max_epochs N") && contains("trainer: {max_epochs: N}"));
  CHECK_THAT(help_on("resume_from_checkpoint", source), contains("--ckpt_path PATH"));
  for (const char* word : {"early_stopping", "callbacks.early_stopping", "callbacks.early_stopping.patience"})
    CHECK_THAT(help_on(word, source), contains("--callbacks.early_stopping.patience N"));
  CHECK_THAT(help_on("optimizer.lr", source), contains("--optimizer.lr X"));
  CHECK_THAT(help_on("", source), contains("exit-status"));
  CHECK_THAT(error_of([&] { help_on("max_epoch", source); }),
             contains(code(MessageCode::unknown_name)) && contains("max_epochs"));
  CHECK_THROWS_AS(help_on("\x1b[2J", source), ConfigError);
}

TEST_CASE("every group of options has a topic", "[help]") {
  std::set<std::string> groups, with_topic;
  for (const OptionEntry& entry : option_table()) groups.insert(entry.group);
  for (const HelpTopic& topic : help_topics()) {
    if (!topic.group.empty()) with_topic.insert(topic.group);
  }
  CHECK(groups == with_topic);
}

TEST_CASE("every variable of the environment that the sources read is explained", "[help]") {
  const std::string known = help_on("environment", source_of(200));
  const std::regex read(R"-(getenv\("([A-Z0-9_]+)"\)|"(CXTRAIN_[A-Z_]+)")-");
  std::size_t found = 0;
  for (const char* folder : {"src/cxtrain", "launchers", "strategies", "examples"}) {
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(std::string(CXTRAIN_SOURCE_DIR) + "/" + folder)) {
      if (file.path().extension() != ".cpp") continue;
      const std::string text = slurp(file.path().string());
      for (std::sregex_iterator at(text.begin(), text.end(), read), end; at != end; ++at) {
        const std::string name = (*at)[1].matched ? (*at)[1] : (*at)[2];
        CAPTURE(file.path().string(), name);
        const std::string family = name.substr(0, name.find('_') + 1) + "*";
        CHECK((known.find(name) != std::string::npos || known.find(family) != std::string::npos));
        ++found;
      }
    }
  }
  CHECK(found > 10);
}

/// What bash completes after these words, the last of which is being typed.
std::string completed(const TempDir& dir, const std::string& script, const std::string& words) {
  dir.write("completion.bash", script + "COMP_WORDS=(" + words +
                                   ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_cxtrain_mpi\n"
                                   "echo \"${COMPREPLY[@]}\"\n");
  const ProgramResult result = run_command("bash -u " + dir.file("completion.bash"));
  return result.output.substr(0, result.output.find('\n'));
}

TEST_CASE("bash completes subcommands, options, and the values of options that have a few", "[help]") {
  const TempDir dir;
  const std::string script = completion_script("bash", source_of(100));
  CHECK(completed(dir, script, "cxtrain_mpi doc") == "doctor");
  CHECK(completed(dir, script, "cxtrain_mpi fit --max_ep") == "--max_epochs");
  CHECK(completed(dir, script, "cxtrain_mpi --accelerator g") == "gpu");
  CHECK(completed(dir, script, "cxtrain_mpi --accelerator = c") == "cpu");
  CHECK(completed(dir, script, "cxtrain_mpi --optimizer ada") == "adagrad adam adamw");
  CHECK(completed(dir, script, "cxtrain_mpi --callbacks.early_stopping.pat") ==
        "--callbacks.early_stopping.patience");
  CHECK(completed(dir, script, "cxtrain_mpi help dev") == "devices");
  CHECK(completed(dir, script, "cxtrain_mpi --limit_train_batches X").empty());  // shown as N|X
  dir.write("options.yaml", "");
  CHECK(completed(dir, script, "cxtrain_mpi --config " + dir.file("opt")) == dir.file("options.yaml"));
  CHECK_THAT(
      error_of([&] { completion_script("fish", source_of(100)); }),
      contains(code(MessageCode::unknown_name)) && contains("'fish'") && contains("bash") && contains("zsh"));
}

TEST_CASE("a name with characters of the shell stays out of the completion", "[help]") {
  HelpSource source = source_of(100);
  source.sections.push_back(
      {"Models", "model", {{"$(touch /tmp/x)", "a `trap`", {}}, {"fine", "it's 'quoted'", {}}}});
  source.sections.push_back({"Callbacks", "callbacks", {{"calm", "it's `id` $(id)", {}}}});
  for (const char* shell : {"bash", "zsh"}) {
    const std::string script = completion_script(shell, source);
    CHECK_THAT(script, !contains("touch") && contains("fine"));
  }
  CHECK_THAT(completion_script("zsh", source), contains("'--callbacks.calm:it'\\''s `id` $(id)'"));
}

TEST_CASE("help shows the defaults of the program") {
  HelpSource source = source_of(100);
  source.defaults.trainer.devices = 4;
  source.defaults.trainer.max_epochs = 77;
  CHECK_THAT(help_on("devices", source), contains("-1 or auto [4]"));
  CHECK_THAT(subcommand_help("fit", source), contains("[77]"));
  CHECK_THAT(brief_help("own", source.defaults, 100), contains("[77]"));
  CHECK_THAT(reference_page(source), contains("| `77` |"));
}

}  // namespace
}  // namespace cxtrain::test
