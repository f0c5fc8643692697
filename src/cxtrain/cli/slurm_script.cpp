#include "cxtrain/cli/slurm_script.h"

#include <algorithm>
#include <cctype>
#include <regex>
#include <string_view>
#include <utility>

#include "cxtrain/base/command.h"
#include "cxtrain/base/number_ranges.h"
#include "cxtrain/base/text.h"
#include "cxtrain/cli/command_line.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cluster/slurm_time.h"
#include "cxtrain/config/fields.h"

namespace cxtrain {
namespace {

/// A regular expression takes stack for each character.
constexpr std::size_t kLongestJobName = 200, kLongestArray = 1000;

/// `ABC`, `a-b,c`: sbatch and the script's lines of comments take it for one word.
bool is_one_word(const std::string& text) {
  return std::ranges::none_of(text, [](unsigned char c) {
    return std::isspace(c) != 0 || std::iscntrl(c) != 0 || c == '\'' || c == '"' || c == '\\';
  });
}

/// A signal as sbatch has it, and when it is sent.
struct TimedSignal {
  std::string name;  ///< "USR1"
  std::int64_t seconds = 0;
};

/// USR1@120, SIGTERM@60.
std::optional<TimedSignal> read_signal(const std::string& text) {
  const std::size_t at = text.find('@');
  if (at == 0 || at == std::string::npos) return std::nullopt;
  const std::optional<std::int64_t> seconds = number_of_digits(std::string_view(text).substr(at + 1));
  std::string name = text.substr(0, at);
  if (name.starts_with("SIG")) name = name.substr(3);
  const bool letters = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0; });
  if (!seconds || name.empty() || !letters) return std::nullopt;
  return TimedSignal{name, *seconds};
}

void check_signal(const Options& options, std::vector<Problem>& problems) {
  const std::string& typed = options.batch_job.signal;
  const std::optional<TimedSignal> signal = read_signal(typed);
  if (!signal) {
    problems.push_back({"signal", "'" + shortened(typed, 40) + "' is not of the form SIGNAL@SECONDS",
                        "write --signal USR1@120"});
    return;
  }
  const std::string requeue(word_of(options.trainer.requeue_signal));
  if ("SIG" + signal->name != requeue && signal->name != "TERM" && signal->name != "INT") {
    problems.push_back({"signal",
                        "SIG" + signal->name + " is not the signal on which ranks save, which is " + requeue,
                        "use --requeue_signal SIG" + signal->name + " as well, or --signal USR1@120",
                        MessageCode::conflicting_options});
  }
  const std::string& written = options.batch_job.time;
  const std::optional<std::int64_t> time = seconds_of_time(written);
  if (written == "UNLIMITED" || written == "INFINITE" || time == 0) return;  // no limit, as sbatch takes them
  if (!time) {
    problems.push_back({"time", "'" + shortened(written, 40) + "' is not a time in the format of sbatch",
                        "write HOURS:MINUTES:SECONDS, DAYS-HOURS, or a number of minutes"});
  } else if (*time <= signal->seconds) {
    problems.push_back({"time",
                        written + " is over before the " + std::to_string(signal->seconds) +
                            " s of --signal: the ranks would save at once, and never progress",
                        "ask for more time; a number alone means minutes", MessageCode::out_of_range});
  }
}

class ScriptWriter {
 public:
  void line(const std::string& text = "") { text_ += text + '\n'; }
  void comment(const std::string& text) { line("# " + text); }
  void ask(const std::string& option, const std::string& value) {
    if (!value.empty()) line("#SBATCH --" + option + "=" + value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

std::string number(const std::optional<int>& value) { return value ? std::to_string(*value) : ""; }

/// Asks for nodes, cores, memory and time.
void write_resources(const BatchJobOptions& job, ScriptWriter& script) {
  script.ask("job-name", job.job_name);
  script.ask("nodes", std::to_string(job.nodes));
  script.ask("ntasks-per-node", std::to_string(ranks_per_node(job)));
  if (job.gpus_per_node) {
    script.comment("All GPUs of a node are shown to all its ranks, so that they reach each other.");
    script.ask("gpus-per-node", number(job.gpus_per_node));
  }
  if (job.cpus_per_task) {
    script.comment("A rank's loop, its data workers, and the threads that feed its GPU.");
    script.ask("cpus-per-task", number(job.cpus_per_task));
  }
  script.ask("mem", job.mem);
  script.ask("time", job.time);
  script.ask("partition", job.partition);
  script.ask("account", job.account);
  script.ask("qos", job.qos);
  script.ask("constraint", job.constraint);
}

/// Asks for a signal before the job's end, and for another start.
void write_life(const BatchJobOptions& job, ScriptWriter& script) {
  script.ask("array", job.array);
  script.comment("The ranks get this signal N seconds before the time is over: they save, and end with 75.");
  script.ask("signal", job.signal);
  script.comment(
      "After a node failure or a preemption the job starts again, and its output continues in one file.");
  script.line("#SBATCH --requeue");
  script.line("#SBATCH --open-mode=append");
  script.ask("output", job.array.empty() ? "slurm-%j.out" : "slurm-%A_%a.out");
}

/// Sets the variables that srun needs.
void write_environment(ScriptWriter& script) {
  script.comment("Since Slurm 22.05, srun does not inherit this setting.");
  script.line("if [ -n \"$SLURM_CPUS_PER_TASK\" ]; then export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK; fi");
  script.comment(
      "Slurm's default barrier at the start of MPI does not wait for other nodes, and ranks may crash.");
  script.line("export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}");
  script.line();
}

/// What becomes of the job, by the status that the training ended with.
void write_end(const std::string& id, ScriptWriter& script) {
  script.comment(
      "75: the state is saved: requeue. 143: stopped before it could save: requeue after a preemption only.");
  script.comment("0: done. 2, 93, 126, 127: a new start would end alike. 130: stopped by hand.");
  script.comment("Any other status may come from a lost node: requeue, at most five times in a row.");
  script.line("case $status in");
  script.line("  75) rm -f \"$folder/failures\" && scontrol requeue " + id + " ;;");
  script.line("  143) if scontrol show job " + id + " | grep -q 'PreemptTime=[0-9]'; then scontrol requeue " +
              id + "; fi ;;");
  script.line("  0 | 2 | 93 | 126 | 127 | 130) ;;");
  script.line("  *)");
  script.line("    # A status that cannot be counted, as on a full disk, is not followed by another start.");
  script.line(
      "    if mkdir -p \"$folder\" && echo \"$status\" >> \"$folder/failures\" && "
      "[ \"$(wc -l < \"$folder/failures\")\" -le 5 ]; then");
  script.line("      scontrol requeue " + id);
  script.line("    fi");
  script.line("    ;;");
  script.line("esac");
  script.line("exit $status");
}

}  // namespace

int ranks_per_node(const BatchJobOptions& job) {
  return job.ntasks_per_node.value_or(std::max(1, job.gpus_per_node.value_or(1)));
}

void check_batch_job(const Options& options, std::vector<Problem>& problems) {
  const BatchJobOptions& job = options.batch_job;
  check_fields(job, "", problems);
  const std::pair<const char*, const std::string*> words[] = {
      {"job_name", &job.job_name}, {"partition", &job.partition},
      {"account", &job.account},   {"qos", &job.qos},
      {"mem", &job.mem},           {"constraint", &job.constraint},
      {"array", &job.array}};
  for (const auto& [option, word] : words) {
    if (!is_one_word(*word))
      problems.push_back({option, "'" + shortened(*word, 40) + "' is not one word, as sbatch needs it", ""});
  }
  const auto check_form = [&](const char* option, const std::string& value, const char* form,
                              const char* what) {
    if (!value.empty() && is_one_word(value) && !std::regex_match(value, std::regex(form)))
      problems.push_back({option, "'" + shortened(value, 40) + "' is " + what, ""});
  };
  // The name becomes that of a file, and a word of sbatch's command line.
  if (job.job_name.empty() || job.job_name.size() > kLongestJobName)
    problems.push_back({"job_name", "'" + shortened(job.job_name, 40) + "' does not have 1 to 200 characters",
                        "", MessageCode::out_of_range});
  else
    check_form("job_name", job.job_name, "[A-Za-z0-9_][A-Za-z0-9._+-]*",
               "no name for a job: letters, digits, and . _ + - behind the first");
  if (job.array.size() <= kLongestArray)
    check_form("array", job.array, R"([0-9]+(-[0-9]+(:[0-9]+)?)?(,[0-9]+(-[0-9]+(:[0-9]+)?)?)*(%[0-9]+)?)",
               "no list of tasks as sbatch takes it: 0-15, 0-15:4, 1,3,7, 0-99%10");
  check_form("mem", job.mem, "[0-9]{1,15}[KMGTkmgt]?", "no amount of memory as sbatch takes it: 500M, 16G");
  check_signal(options, problems);
}

WorldFacts world_of(const BatchJobOptions& job) {
  WorldFacts facts;
  facts.launched_by = LaunchedBy::srun;
  facts.num_nodes = job.nodes;
  facts.max_local_size = facts.local_size = ranks_per_node(job);
  facts.size = job.nodes * facts.local_size;
  return facts;
}

Hardware hardware_of(const BatchJobOptions& job) {
  Hardware hardware;
  Node& node = hardware.nodes.emplace_back();
  node.hostname = "of the job";
  node.cores = job.cpus_per_task.value_or(1) * ranks_per_node(job);
  for (int i = 0; i < job.gpus_per_node.value_or(0); ++i) {
    Gpu& gpu = node.gpus.emplace_back();
    gpu.index = i;
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.name = "a GPU";
  }
  return hardware;
}

std::vector<std::string> options_of_fit(std::span<const char* const> args) {
  std::vector<Problem> known;  // to whoever reads the command line
  const Tokens tokens = tokenize(args, known);
  std::vector<std::string> options;
  for (const std::string& file : tokens.config_files) options.push_back(shell_quoted("--config=" + file));
  for (const Setting& setting : tokens.settings) {
    const OptionEntry* entry = find_option(setting.key);
    if (entry != nullptr && (entry->commands == kSlurmScript || entry->key == "ckpt_path" ||
                             entry->canonical == "ckpt_path" || entry->key == "trainer.default_root_dir"))
      continue;
    options.push_back(shell_quoted(setting.written.substr(0, setting.written.find('=')) + "=" +
                                   setting.value.value_or("null")));
  }
  return options;
}

std::string slurm_script(const Options& options, const std::string& program,
                         std::span<const std::string> fit) {
  const BatchJobOptions& job = options.batch_job;
  ScriptWriter script;
  script.line("#!/bin/bash");
  script.comment("Trains on " + counted(job.nodes, "node") + " with " + counted(ranks_per_node(job), "rank") +
                 (job.nodes > 1 ? " each" : "") +
                 "; resumes by itself after a preemption, a requeue or the end of its time.");
  script.comment("Made by cxtrain_mpi slurm-script. Load the program's modules before sbatch, or below.");
  script.line("#");
  write_resources(job, script);
  write_life(job, script);
  script.line();
  script.line("program=" + shell_quoted(program));
  // A folder that was not asked for is one for this job, which finds it again when it is requeued.
  const std::string& root = options.trainer.default_root_dir;
  const std::string of_job =
      job.array.empty() ? "\"runs/$SLURM_JOB_ID\"" : "\"runs/${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"";
  script.line("folder=" + (root == Options{}.trainer.default_root_dir ? of_job
                           : job.array.empty()                        ? shell_quoted(root)
                                               : shell_quoted(root) + "/\"$SLURM_ARRAY_TASK_ID\""));
  script.line("options=(");
  for (const std::string& option : fit) script.line("  " + option);
  script.line(")");
  script.line();
  write_environment(script);
  if (options.ckpt_path && *options.ckpt_path != "auto") {
    script.comment("Starts from this checkpoint; a requeued job resumes from its own newest checkpoint.");
    script.line("from=" + shell_quoted(*options.ckpt_path));
    script.line("if [ \"${SLURM_RESTART_COUNT:-0}\" -gt 0 ]; then from=auto; fi");
  } else {
    script.comment("The newest complete checkpoint of this job; none at its first start.");
    script.line("from=auto");
  }
  script.line();
  script.comment("The doctor looks for errors first: they end the job here, not after hours.");
  script.line("srun --mpi=pmix \"$program\" doctor --default_root_dir \"$folder\" \"${options[@]}\"");
  script.line("if [ $? = 2 ]; then exit 2; fi");
  script.line();
  if (options.max_restarts > 0) {
    script.comment(
        "Without srun: the program starts the ranks on the job's nodes, and restarts them when they fail.");
    script.line("\"$program\" fit --num_nodes " + std::to_string(job.nodes) + " --devices " +
                std::to_string(ranks_per_node(job)) + " --ckpt_path \"$from\" \\");
  } else {
    script.line("srun --mpi=pmix --kill-on-bad-exit=1 \"$program\" fit --ckpt_path \"$from\" \\");
  }
  script.line("  --default_root_dir \"$folder\" \"${options[@]}\"");
  script.line("status=$?");
  script.line();
  write_end(job.array.empty() ? "\"$SLURM_JOB_ID\"" : "\"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\"",
            script);
  return script.take();
}

std::string study_script(const BatchJobOptions& job, const std::string& program, const std::string& study) {
  ScriptWriter script;
  script.line("#!/bin/bash");
  script.comment("Measures what a scaling study lacks on " + counted(job.nodes, "node") + ".");
  script.comment("Made by cxtrain_mpi scaling --submit, with the modules that were loaded then.");
  script.line("#");
  write_resources(job, script);
  script.line();
  write_environment(script);
  script.comment("The program starts the ranks of each training itself.");
  script.line("exec " + shell_quoted(program) + " scaling measure --from=" + shell_quoted(study) +
              " --nodes=" + std::to_string(job.nodes));
  return script.take();
}

}  // namespace cxtrain
