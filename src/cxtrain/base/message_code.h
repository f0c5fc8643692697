#pragma once

#include <span>
#include <string_view>

namespace cxtrain {

/// The kind of an error. An error is printed with the name of its code at the end ("[out-of-range]"):
/// scripts, searches and tests use the code, so the wording of a message may change. docs/reference.md
/// lists the codes.
enum class MessageCode {
  none,  ///< prints nothing: for an error that is none of cxtrain's, and for several problems in one message
  // Options and arguments.
  invalid_value,
  unknown_option,
  unknown_name,
  out_of_range,
  missing_value,
  conflicting_options,
  unsupported_option,
  invalid_file,
  // Devices and the launch.
  no_device,
  wrong_ranks,
  wrong_mpi,
  launch_failed,
  different_options,
  // Files.
  file_failed,
  unsafe_file,
  run_in_use,
  // Data and models.
  bad_data,
  no_data,
  data_changed,
  bad_model,
  // Checkpoints and weights.
  checkpoint_missing,
  bad_checkpoint,
  model_mismatch,
  bad_state,
  // Plugins.
  plugin_failed,
  plugin_mismatch,
  // Training.
  training_failed,
  bad_loss,
  not_finite,
  log_misuse,
  ranks_diverged,
  out_of_memory,
  // Communication.
  communication_failed,
  bad_tensor,
  rank_lost,
  timeout,
};

/// A code, its printed name, and one line about it.
struct MessageKind {
  MessageCode code;
  std::string_view name, meaning;
};

/// All codes except `none`, in the order of the enum.
std::span<const MessageKind> message_kinds();

/// "out-of-range"; empty for `none`.
std::string_view name_of(MessageCode code);

}  // namespace cxtrain
