#include "cxtrain/cli/checkpoint_command.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <sstream>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"
#include "cxtrain/checkpoint/checkpoint_error.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/checkpoint/compare_weights.h"
#include "cxtrain/checkpoint/export_weights.h"
#include "cxtrain/checkpoint/manifest.h"
#include "cxtrain/checkpoint/torch_dtypes.h"
#include "cxtrain/checkpoint/weights.h"
#include "cxtrain/cli/help_page.h"
#include "cxtrain/config/did_you_mean.h"

namespace cxtrain {
namespace {

/// A name from a file, on one line of a terminal.
std::string shown(const std::string& name) {
  std::string text = printable(shortened(name, 300));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t'; }, '?');
  return text;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::ostringstream text;
  text << at::IntArrayRef(shape);
  return text.str();
}

std::int64_t elements_of(const StoredTensor& tensor) {
  std::int64_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= size;
  return elements;
}

std::int64_t bytes_of(const StoredTensor& tensor) {
  return elements_of(tensor) * static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
}

// ------------------------------------------------------------------ inspect

/// The manifest of a checkpoint's folder; nothing for a file of weights, or a folder without one. Throws
/// CheckpointError for a damaged one.
std::optional<Manifest> manifest_of(Filesystem& files, const std::string& path) {
  if (!files.status(path + "/" + std::string(Manifest::kFile))) return std::nullopt;
  return read_manifest(files, path);
}

/// For people: where the training stood, what it was, and the files.
void print_place(const Manifest& manifest, std::ostream& terminal) {
  std::ostringstream out;
  out << manifest.program << (manifest.weights_only ? ", the model only" : "") << ": model " << manifest.model
      << ", " << manifest.strategy << " on " << counted(manifest.world_size, "rank") << ", "
      << manifest.precision << "\nepoch " << manifest.epoch << ", batch " << manifest.batch << ", step "
      << manifest.global_step << ", " << manifest.samples << " samples, seed " << manifest.seed << '\n';
  if (!manifest.data.empty()) out << "data " << manifest.data << '\n';
  for (const auto& [name, value] : manifest.metrics) out << name << " " << value << '\n';
  for (const CheckpointFile& file : manifest.files)
    out << file.name << "  " << file.bytes << " bytes  xxh3 " << file.xxh3 << '\n';
  terminal << printable(out.str());
}

void print_json(const StoredWeights& weights, std::int64_t elements, std::int64_t bytes, std::ostream& out) {
  nlohmann::ordered_json json{{"path", weights.path},         {"format", weights.format},
                              {"elements", elements},         {"bytes", bytes},
                              {"metadata", weights.metadata}, {"skipped", weights.skipped}};
  json["tensors"] = nlohmann::ordered_json::array();
  for (const StoredTensor& tensor : weights.tensors) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"dtype", torch_name(tensor.dtype)},
                               {"shape", tensor.shape},
                               {"bytes", bytes_of(tensor)}});
  }
  out << text_of_json(json) << '\n';
}

int inspect(const CommandWords& words, Filesystem& files, std::ostream& out) {
  const std::optional<Manifest> manifest = manifest_of(files, words.paths[0]);
  const StoredWeights weights = open_weights(files, words.paths[0]);
  std::int64_t elements = 0, bytes = 0;
  std::size_t name_width = 4, shape_width = 5, dtype_width = 5;
  for (const StoredTensor& tensor : weights.tensors) {
    elements += elements_of(tensor);
    bytes += bytes_of(tensor);
    name_width = std::max(name_width, shown(tensor.name).size());
    dtype_width = std::max(dtype_width, torch_name(tensor.dtype).size());
    shape_width = std::max(shape_width, shape_text(tensor.shape).size());
  }
  if (words.flags.contains("--json")) {
    print_json(weights, elements, bytes, out);
    return 0;
  }
  if (manifest) print_place(*manifest, out);
  const auto row = [&](const std::string& name, std::string_view dtype, const std::string& shape,
                       const std::string& size) {
    out << std::left << std::setw(static_cast<int>(name_width + 2)) << name
        << std::setw(static_cast<int>(dtype_width + 2)) << dtype
        << std::setw(static_cast<int>(shape_width + 2)) << shape << std::right << std::setw(14) << size
        << '\n';
  };
  out << weights.path << ": " << weights.format << ", " << weights.tensors.size() << " tensors, " << elements
      << " elements, " << bytes << " bytes\n";
  for (const auto& [key, value] : weights.metadata) out << "  " << shown(key) << ": " << shown(value) << '\n';
  row("name", "dtype", "shape", "bytes");
  for (const StoredTensor& tensor : weights.tensors) {
    row(shown(tensor.name), torch_name(tensor.dtype), shape_text(tensor.shape),
        std::to_string(bytes_of(tensor)));
  }
  for (const std::string& name : weights.skipped)
    out << shown(name) << " is a tensor of a kind that is not read here\n";
  return 0;
}

/// Compares every file of a checkpoint with its checksum, and says that it is whole. Throws CheckpointError
/// naming the first that is not.
int verify_checkpoint(const CommandWords& words, Filesystem& files, std::ostream& out) {
  const std::string& path = words.paths[0];
  const Manifest manifest = read_manifest(files, path);
  verify_files(files, path, manifest);
  if (words.flags.contains("--json")) {
    out << text_of_json(nlohmann::ordered_json{{"path", path},
                                               {"whole", true},
                                               {"epoch", manifest.epoch},
                                               {"global_step", manifest.global_step},
                                               {"files", manifest.files.size()},
                                               {"bytes", manifest.bytes()}})
        << '\n';
  } else {
    out << path << ": whole (epoch " << manifest.epoch << ", step " << manifest.global_step << "; "
        << manifest.files.size() << " files, " << manifest.bytes() << " bytes)\n";
  }
  return 0;
}

// ------------------------------------------------------------------ diff

void print_json(const WeightsDifference& difference, std::ostream& out) {
  nlohmann::ordered_json json{{"equal", difference.equal()},
                              {"only_in_first", difference.only_first},
                              {"only_in_second", difference.only_second}};
  json["different"] = json_of(difference.tensors);
  out << text_of_json(json) << '\n';
}

void print_tensor(const TensorDifference& tensor, std::ostream& out) {
  out << shown(tensor.name) << ": ";
  if (tensor.first != tensor.second) out << tensor.first << " and " << tensor.second;
  if (tensor.elements > 0) {
    out << (tensor.first != tensor.second ? "; " : "") << tensor.elements
        << (tensor.elements == 1 ? " element differs" : " elements differ") << ", the largest difference is "
        << tensor.largest << "; the first at " << shape_text(tensor.at) << ": " << tensor.first_value
        << " and " << tensor.second_value;
  }
  out << '\n';
}

int diff(const CommandWords& words, Filesystem& files, std::ostream& out) {
  const StoredWeights first = open_verified_weights(files, words.paths[0]);
  const StoredWeights second = open_verified_weights(files, words.paths[1]);
  const WeightsDifference difference = compare_weights(first, second);
  if (words.flags.contains("--json")) {
    print_json(difference, out);
  } else {
    out << std::setprecision(9);
    for (const std::string& name : difference.only_first)
      out << shown(name) << ": only in " << first.path << '\n';
    for (const std::string& name : difference.only_second)
      out << shown(name) << ": only in " << second.path << '\n';
    for (const TensorDifference& tensor : difference.tensors) print_tensor(tensor, out);
    if (difference.equal()) out << "equal: " << first.tensors.size() << " tensors, to the last bit\n";
  }
  return difference.equal() ? 0 : 1;
}

// ------------------------------------------------------------------ export

int export_weights(const CommandWords& words, Filesystem& files, std::ostream& out) {
  const std::string safetensors_file = words.value("--safetensors"), torch_file = words.value("--torch");
  if (safetensors_file.empty() && torch_file.empty()) {
    throw ConfigError("checkpoint export", "needs a file to write", "add --safetensors FILE or --torch FILE",
                      MessageCode::missing_value);
  }
  const StoredWeights weights = open_verified_weights(files, words.paths[0]);
  const auto tell = [&](const std::string& path) {
    out << path << ": " << weights.tensors.size() << " tensors\n";
  };
  if (!safetensors_file.empty()) {
    write_safetensors(files, safetensors_file, weights);
    tell(safetensors_file);
  }
  if (!torch_file.empty()) {
    write_torch_file(files, torch_file, weights);
    tell(torch_file);
  }
  for (const std::string& name : weights.skipped)
    out << shown(name) << " is left out: a tensor of a kind that is not read here\n";
  return 0;
}

// ------------------------------------------------------------------ the command line

struct CheckpointAction {
  std::string name;
  std::string usage;  ///< what follows the name
  std::string help;
  std::size_t paths;
  bool writes;  ///< it takes --safetensors and --torch
  int (*run)(const CommandWords& words, Filesystem& files, std::ostream& out);
};

// NOLINTNEXTLINE(cert-err58-cpp): texts, for which there is memory when a process starts
const CheckpointAction kCheckpointActions[] = {
    {"inspect", "PATH [--json]", "list the tensors: names, dtypes, shapes, bytes", 1, false, inspect},
    {"verify", "PATH [--json]",
     "compare every file of a checkpoint with its checksum; exit status 0: complete, 2: damaged", 1, false,
     verify_checkpoint},
    {"diff", "PATH PATH [--json]", "compare the tensors; exit status 0: equal, 1: different, 2: unreadable",
     2, false, diff},
    {"export", "PATH --safetensors FILE",
     "write the tensors for Python's safetensors, or with --torch FILE for torch.load", 1, true,
     export_weights},
};

std::string checkpoint_help() {
  HelpPage page = page_of_command(
      "checkpoint",
      "PATH is the folder of a checkpoint, a safetensors file, an index of several, or a file of torch.save, "
      "Lightning or TorchScript. Nothing in the file is executed.");
  page.line();
  for (const CheckpointAction& action : kCheckpointActions)
    page.entry(action.name + " " + action.usage, action.help);
  return page.text();
}

const CheckpointAction& find_action(const std::string& name) {
  for (const CheckpointAction& action : kCheckpointActions) {
    if (action.name == name) return action;
  }
  throw ConfigError(
      "",
      name.empty() ? "checkpoint: the action is missing" : "checkpoint: there is no action '" + name + "'",
      did_you_mean_or_known(name, checkpoint_actions()), MessageCode::unknown_option);
}

CommandWords read_words(const CheckpointAction& action, std::span<const std::string> words) {
  std::vector<Problem> problems;
  const std::string command = "checkpoint " + action.name, usage = command + " " + action.usage;
  CommandWords sorted = action.writes
                            ? sort_words(words, command, usage, {}, {"--safetensors", "--torch"}, problems)
                            : sort_words(words, command, usage, {"--json"}, {}, problems);
  if (sorted.paths.size() != action.paths) {
    problems.push_back(
        {command, "takes " + counted(action.paths, "path") + ", found " + std::to_string(sorted.paths.size()),
         "usage: " + usage, MessageCode::out_of_range});
  }
  if (!problems.empty()) throw ConfigError(problems);
  return sorted;
}

}  // namespace

std::vector<std::string> checkpoint_actions() {
  return transformed(kCheckpointActions, &CheckpointAction::name);
}

int run_checkpoint_command(std::span<const char* const> words, Filesystem& files, std::ostream& out) {
  std::vector<std::string> rest(words.begin(), words.end());
  if (std::ranges::any_of(rest, [](const auto& word) { return word == "--help" || word == "-h"; }))
    return out << checkpoint_help(), 0;
  const CheckpointAction& action = find_action(rest.empty() ? "" : rest.front());
  try {
    return action.run(read_words(action, std::span(rest).subspan(1)), files, out);
  } catch (const FileError& error) {
    throw CheckpointError(error.what(), message_code_of(error));
  }
}

}  // namespace cxtrain
