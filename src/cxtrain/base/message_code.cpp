#include "cxtrain/base/message_code.h"

#include <array>

namespace cxtrain {
namespace {

using enum MessageCode;

constexpr std::array kMessageKinds{
    MessageKind{none, "", ""},
    MessageKind{invalid_value, "invalid-value", "an option's value has another form than the option takes"},
    MessageKind{unknown_option, "unknown-option", "no option, subcommand or argument has this name"},
    MessageKind{unknown_name, "unknown-name", "no component, or none of an option's choices, has this name"},
    MessageKind{out_of_range, "out-of-range", "a number, or a count, is too small or too large"},
    MessageKind{missing_value, "missing-value", "a value that is needed was not given"},
    MessageKind{conflicting_options, "conflicting-options",
                "two options exclude each other, or one needs another"},
    MessageKind{unsupported_option, "unsupported-option", "Lightning has this option, and cxtrain does not"},
    MessageKind{invalid_file, "invalid-file", "a file of options or of hardware cannot be used"},
    MessageKind{no_device, "no-device", "the GPUs that were asked for are missing or cannot be used"},
    MessageKind{wrong_ranks, "wrong-ranks",
                "the options ask for another number of ranks or nodes than there is"},
    MessageKind{wrong_mpi, "wrong-mpi", "the launcher, MPI or NCCL does not fit this program"},
    MessageKind{launch_failed, "launch-failed", "ranks, or another program, cannot be started or watched"},
    MessageKind{different_options, "different-options", "the ranks have different options or data"},
    MessageKind{file_failed, "file-failed", "the system cannot read, write or create a file or folder"},
    MessageKind{unsafe_file, "unsafe-file", "a file or link belongs to another user"},
    MessageKind{run_in_use, "run-in-use", "another job writes into the run's folder"},
    MessageKind{bad_data, "bad-data", "the content of a data file, or a batch, is not as expected"},
    MessageKind{no_data, "no-data", "samples are missing, or too few"},
    MessageKind{data_changed, "data-changed", "the data differ from the data of the checkpoint"},
    MessageKind{bad_model, "bad-model", "the model, or a copy of it, cannot be trained like this"},
    MessageKind{checkpoint_missing, "checkpoint-missing", "a checkpoint or a file of weights was not found"},
    MessageKind{bad_checkpoint, "bad-checkpoint",
                "a checkpoint or a file of weights is damaged, or of an unknown format"},
    MessageKind{model_mismatch, "model-mismatch",
                "a checkpoint or a file of weights belongs to another model or training"},
    MessageKind{bad_state, "bad-state", "a saved state lacks a value, or has it in another form"},
    MessageKind{plugin_failed, "plugin-failed", "a plugin cannot be loaded, or has failed"},
    MessageKind{plugin_mismatch, "plugin-mismatch",
                "a plugin was built for another program, or offers a name twice"},
    MessageKind{training_failed, "training-failed", "a step, a hook or a save has failed"},
    MessageKind{bad_loss, "bad-loss", "training_step returned no loss that can be differentiated"},
    MessageKind{not_finite, "not-finite", "a loss, gradient or parameter is infinite or not a number"},
    MessageKind{log_misuse, "log-misuse",
                "a metric cannot be logged in this hook, or a monitored metric was not logged"},
    MessageKind{ranks_diverged, "ranks-diverged", "the ranks hold different parameters"},
    MessageKind{out_of_memory, "out-of-memory", "the memory of the machine or of a device does not suffice"},
    MessageKind{communication_failed, "communication-failed", "MPI or NCCL has reported an error"},
    MessageKind{bad_tensor, "bad-tensor", "a collective cannot take this tensor, rank or dtype"},
    MessageKind{rank_lost, "rank-lost", "a rank has ended without a status"},
    MessageKind{timeout, "timeout", "a rank waited longer than --timeout_seconds"},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kMessageKinds.size(); ++i) {
    if (kMessageKinds[i].code != static_cast<MessageCode>(i)) return false;
  }
  return kMessageKinds.back().code == timeout;
}
static_assert(in_order(), "one row for each MessageCode, in the order of the enum");

}  // namespace

std::string_view name_of(MessageCode code) {
  const auto row = static_cast<std::size_t>(code);
  return row < kMessageKinds.size() ? kMessageKinds[row].name : "";  // a code may come from another process
}

std::span<const MessageKind> message_kinds() { return std::span(kMessageKinds).subspan(1); }

}  // namespace cxtrain
