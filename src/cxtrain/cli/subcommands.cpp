#include "cxtrain/cli/subcommands.h"

#include <algorithm>
#include <array>

#include "cxtrain/base/clock.h"
#include "cxtrain/base/filesystem.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cli/checkpoint_command.h"
#include "cxtrain/cli/doctor_command.h"
#include "cxtrain/cli/report_command.h"
#include "cxtrain/cli/scaling_command.h"
#include "cxtrain/cli/scaling_request.h"
#include "cxtrain/cli/slurm_script.h"

namespace cxtrain {

std::span<const Subcommand> subcommands() {
  using Kind = Subcommand::Kind;
  static const std::array kSubcommands{
      Subcommand{"fit", Kind::train, "[--OPTION VALUE ...]", "train the model (the default)"},
      Subcommand{"validate", Kind::train, "[--ckpt_path PATH] [--OPTION VALUE ...]",
                 "evaluate the model on the validation data"},
      Subcommand{"test", Kind::train, "[--ckpt_path PATH] [--OPTION VALUE ...]",
                 "evaluate the model on the test data"},
      Subcommand{"predict", Kind::train, "[--ckpt_path PATH] [--OPTION VALUE ...]",
                 "write the predictions of the model to files"},
      Subcommand{"plan", Kind::look, "[--ranks N] [--hardware FILE] [--OPTION OF FIT ...]",
                 "print which rank would run where, or every error"},
      Subcommand{kDoctor, Kind::look, "[--all] [--json] [--OPTION OF FIT ...]",
                 "check these options on these nodes"},
      Subcommand{kSlurmScript, Kind::look, "[--nodes N] [--submit] [--OPTION OF FIT ...]",
                 "print or submit a batch job with these options"},
      Subcommand{"status", Kind::files, "[PATH] [--json]", "report how far a run is", run_status_command},
      Subcommand{"report", Kind::files, "RUN... [--out FILE]", "write one HTML file with the curves of runs",
                 [](std::span<const char* const> words, std::ostream& out) {
                   return run_report_command(words, real_filesystem(), seconds_since_1970(), out);
                 }},
      Subcommand{kScaling, Kind::files, "[ACTION] [--ranks LIST] [--OPTION OF FIT ...]",
                 "measure how a training scales with the number of ranks",
                 [](std::span<const char* const> words, std::ostream& out) {
                   return run_scaling_command(words, program_path(), real_filesystem(), out);
                 },
                 /*prints_as_it_works=*/true},
      Subcommand{"checkpoint", Kind::files, "ACTION PATH ...",
                 "inspect, verify, compare and convert checkpoints",
                 [](std::span<const char* const> words, std::ostream& out) {
                   return run_checkpoint_command(words, real_filesystem(), out);
                 }},
      Subcommand{"info", Kind::look, "[--hardware] [--json]", "print versions, hardware and components"},
      Subcommand{"help", Kind::phrase, "[TOPIC|OPTION|COMPONENT]", "explain an option, a component, a topic"},
      Subcommand{"completion", Kind::phrase, "bash|zsh", "print a script that completes command lines"},
  };
  return kSubcommands;
}

const Subcommand* find_subcommand(const std::string& name) {
  const auto all = subcommands();
  const auto found = std::ranges::find(all, name, &Subcommand::name);
  return found == all.end() ? nullptr : &*found;
}

std::string usage_of(const std::string& name) { return name + " " + find_subcommand(name)->usage; }

}  // namespace cxtrain
