#include "cxtrain/cli/checkpoint_place.h"

#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

#include "cxtrain/base/counted.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"

namespace cxtrain {
std::optional<Manifest> manifest_of(Filesystem& files, const std::string& path) {
  if (!files.status(path + "/" + std::string(Manifest::kFile))) return std::nullopt;
  return read_manifest(files, path);
}

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

void verify_checkpoint(Filesystem& files, const std::string& path, bool json, std::ostream& out) {
  const Manifest manifest = read_manifest(files, path);
  verify_files(files, path, manifest);
  if (json) {
    out << nlohmann::ordered_json{{"path", path},
                                  {"whole", true},
                                  {"epoch", manifest.epoch},
                                  {"global_step", manifest.global_step},
                                  {"files", manifest.files.size()},
                                  {"bytes", manifest.bytes()}}
               .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
        << '\n';
    return;
  }
  out << path << ": whole (epoch " << manifest.epoch << ", step " << manifest.global_step << "; "
      << manifest.files.size() << " files, " << manifest.bytes() << " bytes)\n";
}

}  // namespace cxtrain
