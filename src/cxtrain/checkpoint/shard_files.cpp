#include "cxtrain/checkpoint/shard_files.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <sstream>

#include "cxtrain/base/text.h"
#include "cxtrain/checkpoint/checksum.h"
#include "cxtrain/checkpoint/safetensors.h"
#include "cxtrain/checkpoint/state_json.h"
#include "cxtrain/tensor/host_bytes.h"

namespace cxtrain {
namespace {

/// Smaller models lie in one file: many small ones are no faster.
constexpr std::uint64_t kLeastModelFile = std::uint64_t{64} << 20;

std::string key_of(const std::string& path, const Piece& piece) {
  const std::string begin = piece.is_whole() ? "" : "#" + std::to_string(piece.range.begin);
  return path + "/" + piece.name + begin;
}

/// Cuts what comes one after the other into parts of about equal size.
class EqualParts {
 public:
  EqualParts(std::uint64_t total, int parts) : total_(std::max<std::uint64_t>(total, 1)), parts_(parts) {}
  int next(std::uint64_t bytes) {
    const auto part = static_cast<int>(done_ * static_cast<std::uint64_t>(parts_) / total_);
    done_ += bytes;
    return std::min(part, parts_ - 1);
  }

 private:
  std::uint64_t total_, done_ = 0;
  int parts_;
};

struct Located {
  std::string path;
  const Piece* piece;
};

/// Tensors of a section that all ranks share, or each rank writes for itself.
struct SectionTensors {
  bool of_each_rank = false;
  std::vector<Located> pieces = {};
};

void find_pieces(const StateDict& state, const std::string& path, std::vector<Located>& found) {
  for (const Piece& piece : state.pieces()) found.push_back({path, &piece});
  for (const auto& [name, section] : state.sections()) find_pieces(section, path + "/" + name, found);
}

/// Returns a digest of the tensors: of their names, and of their values if they are small or may differ
/// between ranks.
std::string digest_of(std::span<const Located> pieces) {
  constexpr std::size_t kSmall = std::size_t{1} << 20;
  std::size_t bytes = 0;
  for (const auto& [path, piece] : pieces) bytes += piece->values.nbytes();
  std::ostringstream text;
  for (const auto& [path, piece] : pieces)
    text << key_of(path, *piece) << ' ' << piece->values.numel() << ' ' << piece->values.scalar_type()
         << '\n';
  for (const auto& [path, piece] : pieces) {
    if (bytes > kSmall && !piece->may_differ) continue;
    text << checksum_of(host_bytes(on_host(piece->values))) << '\n';
  }
  return checksum_of(text.str());
}

class ShardFiles {
 public:
  explicit ShardFiles(const ShardFilesInputs& inputs) : in_(inputs) {}

  RankShare make() {
    divide_model();
    if (in_.state != nullptr) divide_state();
    return std::move(share_);
  }

 private:
  /// The ranks that have a tensor divide it and the others that the same ranks have.
  void divide_model() {
    std::vector<int> everybody(static_cast<std::size_t>(in_.ranks));
    std::iota(everybody.begin(), everybody.end(), 0);
    const auto holders_of = [&](std::size_t i) -> const std::vector<int>& {
      return in_.holders.empty() ? everybody : in_.holders[i];
    };
    std::map<std::vector<int>, std::uint64_t> bytes;  // by holders
    for (std::size_t i = 0; i < in_.model.size(); ++i) bytes[holders_of(i)] += in_.model[i].tensor.nbytes();
    struct Group {
      EqualParts parts;
      std::uint64_t files;
    };
    std::map<std::vector<int>, Group> groups;
    for (const auto& [holders, total] : bytes) {
      const std::uint64_t files = std::min<std::uint64_t>(total / kLeastModelFile + 1, holders.size());
      groups.emplace(holders, Group{EqualParts(total, static_cast<int>(files)), files});
    }
    std::vector<int> writers;
    for (std::size_t i = 0; i < in_.model.size(); ++i) {
      Group& group = groups.at(holders_of(i));
      const auto part = static_cast<std::uint64_t>(group.parts.next(in_.model[i].tensor.nbytes()));
      writers.push_back(holders_of(i)[part * holders_of(i).size() / group.files]);
    }
    const std::set<int> all(writers.begin(), writers.end());
    const auto file_of = [&](int writer) {
      const auto number = static_cast<int>(std::distance(all.begin(), all.find(writer)));
      return numbered_file("model", number, static_cast<int>(all.size()));
    };
    PlannedFile own;
    for (std::size_t i = 0; i < in_.model.size(); ++i) {
      share_.model_files[in_.model[i].name] = file_of(writers[i]);
      if (writers[i] == in_.rank) own.tensors.push_back(in_.model[i]);
    }
    if (own.tensors.empty()) return;
    own.name = file_of(in_.rank);
    sort_for_alignment(own.tensors);
    own.metadata["format"] = "pt";  // Hugging Face's readers require this entry
    share_.files.push_back(std::move(own));
  }

  void divide_state() {
    const std::string own_file = training_file(in_.rank);
    PlannedFile file{own_file, {}, {}};
    // Tensors that may differ between ranks are compared apart from the other tensors of their section.
    std::map<std::string, SectionTensors> groups;
    for (const auto& [name, section] : in_.state->sections()) {
      std::vector<Located> pieces;
      find_pieces(section, name, pieces);
      for (const Located& each : pieces) {
        SectionTensors& group = groups[each.piece->may_differ ? name + "/of a rank" : name];
        group.of_each_rank = in_.of_each_rank.contains(name);
        group.pieces.push_back(each);
      }
    }
    const std::set<std::string> shared = shared_groups(groups);
    std::map<const Piece*, TensorPlace> places;
    for (const auto& [name, group] : groups) {
      std::uint64_t total = 0;
      for (const auto& [path, piece] : group.pieces) total += piece->values.nbytes();
      EqualParts parts(total, in_.ranks);
      for (const auto& [path, piece] : group.pieces) {
        const int writer = shared.contains(name) ? parts.next(piece->values.nbytes()) : in_.rank;
        if (piece->of_model) continue;  // the file of the model has the values
        const std::string key = key_of(path, *piece);
        places[piece] = {training_file(writer), key};
        if (writer == in_.rank) file.tensors.push_back({key, piece->values});
      }
    }
    const auto place = [&](const std::string&, const Piece& piece) {
      const auto found = places.find(&piece);
      return found == places.end() ? TensorPlace{} : found->second;
    };
    sort_for_alignment(file.tensors);
    file.metadata[kStateKey] =
        to_json(*in_.state, place).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    share_.files.push_back(std::move(file));
  }

  std::string training_file(int rank) const { return numbered_file("training", rank, in_.ranks); }

  /// Of which all ranks hold the same tensors.
  std::set<std::string> shared_groups(const std::map<std::string, SectionTensors>& groups) const {
    std::map<std::string, std::string> digests;
    std::set<std::string> shared;
    for (const auto& [name, group] : groups) {
      if (group.of_each_rank) continue;
      digests[name] = digest_of(group.pieces);
      shared.insert(name);
    }
    for (const std::string& text : in_.exchange(nlohmann::json(digests).dump())) {
      const nlohmann::json others = nlohmann::json::parse(text);
      std::erase_if(shared, [&](const std::string& name) {
        return others.value(name, std::string()) != digests.at(name);
      });
    }
    return shared;
  }

  const ShardFilesInputs& in_;
  RankShare share_;
};

}  // namespace

RankShare shard_files(const ShardFilesInputs& inputs) { return ShardFiles(inputs).make(); }

std::string numbered_file(const std::string& stem, int index, int count) {
  if (count == 1) return stem + ".safetensors";
  return stem + formatted("-%05d-of-%05d", index + 1, count) + ".safetensors";
}

std::string index_json(const std::map<std::string, std::string>& model_files, std::uint64_t bytes) {
  return nlohmann::json{{"metadata", {{"total_size", bytes}}}, {"weight_map", model_files}}.dump(1);
}

}  // namespace cxtrain
