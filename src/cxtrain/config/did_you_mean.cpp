#include "cxtrain/config/did_you_mean.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

constexpr std::size_t kLongestTypo = 100;  // the time grows with the product of two lengths

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> before(width), previous(width), current(width);
  for (std::size_t j = 0; j < width; ++j) previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j < width; ++j) {
      const std::size_t replace = previous[j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      current[j] = std::min({replace, previous[j] + 1, current[j - 1] + 1});
      const bool swapped =
          i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
      if (swapped) current[j] = std::min(current[j], before[j - 2] + 1);
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

constexpr std::string_view kNoSuchDevice = "use --accelerator gpu, cpu or auto";

constexpr std::array kUnsupported{
    // Lightning 2.x and 1.5.
    UnsupportedArgument{"callbacks", "",
                        "write --callbacks.early_stopping.monitor, --callbacks.lr_monitor or "
                        "--callbacks.device_stats; in C++, Trainer::add_callback"},
    UnsupportedArgument{"plugins", "",
                        "use --precision and --strategy, or --plugin FILE for a plugin of your own"},
    UnsupportedArgument{"model_registry", "", "models are plugins: --model NAME, --plugin FILE"},
    UnsupportedArgument{"enable_autolog_hparams", "true",
                        "the configuration of a run is its config.yaml; --logger false writes no metrics"},
    UnsupportedArgument{"tpu_cores", "", kNoSuchDevice}, UnsupportedArgument{"ipus", "", kNoSuchDevice},
    UnsupportedArgument{"process_position", "0",
                        "there is one progress bar; --enable_progress_bar false hides it"},
    UnsupportedArgument{"flush_logs_every_n_steps", "100",
                        "metric files are flushed every few seconds, after each validation and at the end; "
                        "--log_every_n_steps says how often there is something to write"},
    UnsupportedArgument{
        "move_metrics_to_cpu", "false",
        "what is logged are single numbers, of which the last is kept: there is nothing to move"},
    UnsupportedArgument{"multiple_trainloader_mode", "max_size_cycle",
                        "train_dataloader() returns the loaders with their mode: {Combine::min_size, {...}}"},
    UnsupportedArgument{"prepare_data_per_node", "true",
                        "prepare files in DataModule::prepare_data, which runs on one rank of each node"},
    // 1.4 and before.
    UnsupportedArgument{"truncated_bptt_steps", "", "cut the sequences in the dataset"},
    UnsupportedArgument{"automatic_optimization", "true",
                        "set automatic_optimization = false in the model's constructor"},
    UnsupportedArgument{"enable_pl_optimizer", "", "drop it: there is one kind of optimizer"},
    UnsupportedArgument{"early_stop_callback", "", "use --callbacks.early_stopping.monitor METRIC"},
    UnsupportedArgument{"row_log_interval", "", "use --log_every_n_steps"},
    UnsupportedArgument{"add_row_log_interval", "", "use --log_every_n_steps"},
    UnsupportedArgument{"log_save_interval", "", "use --log_every_n_steps"},
    UnsupportedArgument{"train_percent_check", "", "use --limit_train_batches"},
    UnsupportedArgument{"val_percent_check", "", "use --limit_val_batches"},
    UnsupportedArgument{"test_percent_check", "", "use --limit_test_batches"},
    UnsupportedArgument{"overfit_pct", "", "use --overfit_batches"},
    UnsupportedArgument{"max_nb_epochs", "", "use --max_epochs"},
    UnsupportedArgument{"min_nb_epochs", "", "use --min_epochs"},
    UnsupportedArgument{"nb_gpu_nodes", "", "use --num_nodes"},
    UnsupportedArgument{"nb_sanity_val_steps", "", "use --num_sanity_val_steps"},
    UnsupportedArgument{"num_tpu_cores", "", kNoSuchDevice},
    UnsupportedArgument{"show_progress_bar", "", "use --enable_progress_bar"},
    UnsupportedArgument{"gradient_clip", "", "use --gradient_clip_val"},
    UnsupportedArgument{"print_nan_grads", "false", "use --detect_anomaly"},
    UnsupportedArgument{"default_save_path", "", "use --default_root_dir"}};

}  // namespace

std::string nearest_name(std::string_view typed, std::span<const std::string> names) {
  if (typed.size() > kLongestTypo) return "";
  std::string nearest;
  std::size_t fewest = std::max<std::size_t>(1, typed.size() / 3) + 1;
  for (const std::string& name : names) {
    // A typo changes letters; replacing a whole short word is another word.
    const std::size_t distance = edit_distance(typed, name);
    if (distance < fewest && distance < std::max(typed.size(), name.size())) {
      fewest = distance;
      nearest = name;
    }
  }
  return nearest;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string> names,
                         std::string_view prefix) {
  const std::string nearest = nearest_name(typed, names);
  return nearest.empty() ? "" : "did you mean " + std::string(prefix) + nearest + "?";
}

std::string did_you_mean_or_known(std::string_view typed, std::span<const std::string> names,
                                  std::string_view prefix) {
  std::string meant = did_you_mean(typed, names, prefix);
  return meant.empty() && !names.empty() ? "known are " + joined(names) : meant;
}

std::span<const UnsupportedArgument> unsupported_arguments() { return kUnsupported; }

const UnsupportedArgument* find_unsupported_argument(std::string_view key) {
  constexpr std::string_view kSection = "trainer.";
  if (key.starts_with(kSection)) {
    key.remove_prefix(kSection.size());
    key = key.substr(0, key.find('.'));
  }
  for (const UnsupportedArgument& argument : kUnsupported) {
    if (argument.name == key) return &argument;
  }
  return nullptr;
}

}  // namespace cxtrain
