#include "cxtrain/cli/catalogue.h"

#include <sstream>

#include "cxtrain/cli/option_table.h"

namespace cxtrain {
namespace {

constexpr std::size_t kWidth = 100, kColumn = 40;

std::string default_of(const OptionEntry& entry) {
  const auto values = entry.write(Options{});
  if (!values || values->empty() || values->front().empty() || !entry.saved) return "";
  return " [" + values->front() + "]";
}

bool belongs(const OptionEntry& entry, const std::string& subcommand) {
  return entry.commands.empty() ||
         (" " + entry.commands + " ").find(" " + subcommand + " ") != std::string::npos;
}

}  // namespace

void append_help_entry(std::string& out, const std::string& left, const std::string& help) {
  std::string line = "  " + left;
  if (line.size() + 2 > kColumn) {
    out += line + '\n';
    line.clear();
  }
  line.resize(kColumn, ' ');
  std::istringstream words(help);
  for (std::string word; words >> word;) {
    const bool first = line.find_last_not_of(' ') + 1 <= kColumn && line.size() == kColumn;
    if (!first && line.size() + 1 + word.size() > kWidth) {
      out += line + '\n';
      line.assign(kColumn, ' ');
      line += word;
    } else {
      line += (first ? "" : " ") + word;
    }
  }
  out += line + '\n';
}

std::string help_text(const std::string& subcommand) {
  std::string out =
      "cxtrain_mpi [fit|validate|test|predict|plan|info|doctor|slurm-script]\n"
      "            [--config FILE] [--OPTION VALUE ...]\n"
      "mpirun -np N cxtrain_mpi ...\n"
      "cxtrain_mpi checkpoint ACTION PATH ...\n"
      "cxtrain_mpi status PATH\n"
      "cxtrain_mpi report RUN... [--out FILE]\n\n";
  append_help_entry(out, "fit", "train the model; what happens when no subcommand is given");
  append_help_entry(out, "validate, test, predict", "run the model once over the data of that stage");
  append_help_entry(out, "plan", "show which rank would run where, or why it could not");
  append_help_entry(out, "info", "show versions and hardware");
  append_help_entry(out, "doctor",
                    "look for what would go wrong, or be slow, with these options on these nodes");
  append_help_entry(out, "slurm-script",
                    "print, or submit, a batch job that trains with these options; see slurm-script --help");
  append_help_entry(out, "checkpoint",
                    "list, compare and convert checkpoints and weights; see checkpoint --help");
  append_help_entry(out, "status", "show how the run in a folder is, from any machine that sees it");
  append_help_entry(out, "report", "write one HTML file with the curves of one run or several");
  out +=
      "\nOptions mirror the YAML file. Those of `trainer` may be written without `trainer.`; `-` and `_` "
      "are\n"
      "the same; `null` resets.\n";
  std::string group;
  for (const OptionEntry& entry : option_table()) {
    if (!belongs(entry, subcommand)) continue;
    if (entry.group != group) out += "\n" + entry.group + "\n";
    group = entry.group;
    const bool short_name = entry.key.starts_with("trainer.");
    const std::string value = entry.bare.empty() ? " " + entry.placeholder : "[=" + entry.placeholder + "]";
    append_help_entry(out, "--" + (short_name ? entry.key.substr(8) : entry.key) + value,
                      entry.help + default_of(entry));
  }
  append_help_entry(out, "--config FILE",
                    "read options from this YAML file (repeatable; later files and options win)");
  append_help_entry(out, "--print_config", "print the resulting configuration as YAML and end");
  append_help_entry(out, "--version", "print the version and end");
  append_help_entry(out, "-h, --help", "print this and end");
  return out;
}

}  // namespace cxtrain
