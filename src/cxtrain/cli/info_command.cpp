#include "cxtrain/cli/info_command.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "cxtrain/base/error.h"
#include "cxtrain/base/version.h"
#include "cxtrain/config/visible_gpus.h"
#include "cxtrain/device/hardware.h"

namespace cxtrain {
namespace {

void print_node(const Hardware& hardware, std::ostream& out) {
  const Node& node = hardware.node(0);
  out << "host " << node.hostname << ", " << node.cores << (node.cores == 1 ? " core" : " cores") << '\n';
  if (node.gpus.empty()) out << "no GPU\n";
  for (const Gpu& gpu : node.gpus) {
    out << "GPU " << gpu.index << ": " << gpu.name << ", " << gpu.memory_used_mib << " of "
        << gpu.memory_total_mib << " MiB used, " << gpu.utilization << " % busy, " << gpu.compute_mode
        << " mode, " << gpu.uuid << '\n';
  }
  if (const auto variable = hardware.env.find("CUDA_VISIBLE_DEVICES"); variable != hardware.env.end()) {
    out << "CUDA_VISIBLE_DEVICES=" << variable->second << " shows "
        << visible_gpus(node.gpus, variable->second).gpus.size() << '\n';
  }
}

}  // namespace

int run_info(const Options& options, std::span<const std::string> extra_lines,
             const std::vector<CatalogueSection>& catalogue, std::ostream& out) {
  const Hardware hardware = probe_hardware();
  if (options.show_hardware) {
    if (options.json) {
      out << to_json(hardware) << '\n';
    } else {
      print_node(hardware, out);
    }
  } else if (options.json) {
    nlohmann::ordered_json json{{"version", CXTRAIN_VERSION},
                                {"hardware", nlohmann::ordered_json::parse(to_json(hardware))}};
    json["about"] = nlohmann::ordered_json::array();
    for (const std::string& line : extra_lines) json["about"].push_back(line);
    json["components"] = nlohmann::ordered_json::parse(to_json(catalogue));
    out << json.dump() << '\n';
  } else {
    out << "cxtrain " << CXTRAIN_VERSION << '\n';
    for (const std::string& line : extra_lines) out << line << '\n';
    print_node(hardware, out);
    out << to_text(catalogue, options, /*all_arguments=*/true);
  }
  out.flush();
  return static_cast<int>(ExitCode::done);
}

}  // namespace cxtrain
