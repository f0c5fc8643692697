#include "cxtrain/device/hardware.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/base/process.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/slurm_allocation.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/device/cuda_driver.h"
#include "cxtrain/device/nvml.h"
#include "cxtrain/device/resources.h"

namespace cxtrain {
namespace {

using Json = nlohmann::ordered_json;

/// A value in the file and where it stands, so that an error can name it.
class Field {
 public:
  Field(const Json& json, std::string file, std::string path)
      : json_(json), file_(std::move(file)), path_(std::move(path)) {}

  [[noreturn]] void refuse(const std::string& message) const {
    throw DataError("hardware file " + file_ + ": " + (path_.empty() ? "the whole" : path_) + ": " + message,
                    MessageCode::invalid_file);
  }

  /// The member of this name, which must exist when `needed`; an absent one leaves `use` uncalled.
  template <class Use>
  void member(const char* name, bool needed, Use use) const {
    if (!json_.is_object()) refuse(expected("an object"));
    const auto found = json_.find(name);
    if (found != json_.end()) {
      use(Field(*found, file_, path_.empty() ? name : path_ + "." + name));
    } else if (needed) {
      refuse(std::string("the field '") + name + "' is missing");
    }
  }

  void read(std::string& text) const {
    if (!json_.is_string()) refuse(expected("a text"));
    text = json_.get<std::string>();
  }

  template <class Integer>
  void read(Integer& number) const {
    if (!json_.is_number_integer()) refuse(expected("a whole number"));
    const auto value = json_.get<std::int64_t>();
    if (value < 0 || value > std::numeric_limits<Integer>::max())
      refuse(expected("a number that is not negative"));
    number = static_cast<Integer>(value);
  }

  template <class Value>
  void read(std::optional<Value>& value) const {
    read(value.emplace());
  }

  template <class Use>
  void each(Use use) const {
    if (!json_.is_array()) refuse(expected("a list"));
    for (std::size_t i = 0; i < json_.size(); ++i)
      use(Field(json_[i], file_, path_ + "[" + std::to_string(i) + "]"));
  }

  template <class Use>
  void each_member(Use use) const {
    if (!json_.is_object()) refuse(expected("an object"));
    for (const auto& [name, value] : json_.items()) use(name, Field(value, file_, path_ + "." + name));
  }

 private:
  std::string expected(const std::string& what) const {
    if (json_.is_structured()) {  // dump() would follow its nesting, however deep
      const bool list = json_.is_array();
      return "expected " + what + ", found " +
             (json_.empty() ? (list ? "[]" : "{}") : (list ? "a list" : "an object"));
    }
    std::string found = json_.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (found.size() > 40) found = found.substr(0, 40) + "...";
    return "expected " + what + ", found " + found;
  }

  const Json& json_;
  std::string file_, path_;
};

/// "[json.exception.out_of_range.406] number overflow ..." without what it begins with.
std::string without_code(const Json::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return shortened(end == std::string::npos ? text : text.substr(end + 2), 300);
}

template <class Value>
auto into(Value& value) {
  return [&value](const Field& field) { field.read(value); };
}

Gpu read_gpu(const Field& field) {
  Gpu gpu;
  field.member("index", true, into(gpu.index));
  field.member("uuid", false, into(gpu.uuid));
  field.member("name", false, into(gpu.name));
  field.member("memory_total_mib", false, into(gpu.memory_total_mib));
  field.member("memory_used_mib", false, into(gpu.memory_used_mib));
  field.member("utilization", false, into(gpu.utilization));
  field.member("compute_mode", false, into(gpu.compute_mode));
  field.member("processes", false, into(gpu.processes));
  field.member("compute_capability", false, into(gpu.compute_capability));
  field.member("mig", false, [&](const Field& mig) {
    std::string word;
    mig.read(word);
    if (word != "divided" && word != "instance")
      mig.refuse("expected divided or instance, found " + shortened(word, 40));
    gpu.mig = word == "divided" ? Mig::divided : Mig::instance;
  });
  return gpu;
}

Node read_node(const Field& field) {
  Node node;
  field.member("hostname", false, into(node.hostname));
  field.member("cores", false, into(node.cores));
  if (node.cores < 1) field.refuse("a node has at least one core");
  field.member("cuda_version", false, into(node.cuda_version));
  field.member("cuda_failure", false, into(node.cuda_failure));
  field.member("visible", false, [&](const Field& visible) {
    node.visible.emplace();
    visible.each([&](const Field& uuid) { uuid.read(node.visible->emplace_back()); });
  });
  field.member("gpus", false, [&](const Field& gpus) {
    gpus.each([&](const Field& entry) {
      const Gpu gpu = read_gpu(entry);
      const auto same = [&](const Gpu& other) { return other.index == gpu.index; };
      if (std::any_of(node.gpus.begin(), node.gpus.end(), same)) {
        entry.refuse("the index " + std::to_string(gpu.index) + " is used twice on this node");
      }
      node.gpus.push_back(gpu);
    });
  });
  return node;
}

/// Whether both may use the same GPUs under the same numbers; how busy these are does not matter.
bool show_the_same(const Hardware& a, const Hardware& b) {
  return a.env == b.env && a.nodes[0].visible == b.nodes[0].visible &&
         std::ranges::equal(a.nodes[0].gpus, b.nodes[0].gpus, {}, &Gpu::uuid, &Gpu::uuid);
}

Json to_json_object(const Gpu& gpu) {
  Json json{{"index", gpu.index},
            {"uuid", gpu.uuid},
            {"name", gpu.name},
            {"memory_total_mib", gpu.memory_total_mib}};
  if (gpu.memory_used_mib) json["memory_used_mib"] = *gpu.memory_used_mib;
  if (gpu.utilization) json["utilization"] = *gpu.utilization;
  json["compute_mode"] = gpu.compute_mode;
  if (gpu.processes) json["processes"] = *gpu.processes;
  if (!gpu.compute_capability.empty()) json["compute_capability"] = gpu.compute_capability;
  if (gpu.mig != Mig::none) json["mig"] = gpu.mig == Mig::divided ? "divided" : "instance";
  return json;
}

std::string to_json_line(const Hardware& hardware, bool with_visible) {
  Json nodes = Json::array();
  for (const Node& node : hardware.nodes) {
    Json gpus = Json::array();
    for (const Gpu& gpu : node.gpus) gpus.push_back(to_json_object(gpu));
    Json json{{"hostname", node.hostname}, {"cores", node.cores}, {"gpus", std::move(gpus)}};
    if (!node.cuda_version.empty()) json["cuda_version"] = node.cuda_version;
    if (!node.cuda_failure.empty()) json["cuda_failure"] = node.cuda_failure;
    if (with_visible && node.visible) json["visible"] = *node.visible;
    nodes.push_back(std::move(json));
  }
  Json env = Json::object();
  for (const auto& [name, value] : hardware.env) env[name] = value;
  const Json json{{"nodes", std::move(nodes)}, {"env", std::move(env)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

const Node& Hardware::node(int n) const {
  if (nodes.empty() || n < 0) throw std::logic_error("a hardware description has at least one node");
  return nodes[std::min(static_cast<std::size_t>(n), nodes.size() - 1)];
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Hardware probe_hardware() {
  Hardware hardware;
  Node& node = hardware.nodes.emplace_back();
  node.hostname = hostname();
  node.cores = cores_of_this_process();
  hardware.gpu_support = has_cuda_library();
  if (hardware.gpu_support) {
    hardware.cuda_runtime = CXTRAIN_CUDA_RUNTIME;
    const bool may_fork = detect_launcher() == LaunchedBy::alone;
    join_gpus(read_gpus_from_nvml(), may_fork ? read_gpus_from_driver_in_child() : read_gpus_from_driver(),
              node);
    if (node.cuda_version.empty() && !node.gpus.empty()) node.cuda_version = cuda_version_from_nvml();
  } else {
    node.gpus = read_gpus_from_nvml();
  }
  // Where the ranks have been started, MPI says where they are.
  if (detect_launcher() == LaunchedBy::alone) hardware.env = slurm_environment();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    hardware.env["CUDA_VISIBLE_DEVICES"] = visible;
  return hardware;
}

Hardware parse_hardware(std::string_view text, const std::string& file) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), error.byte));
    const auto line = 1 + std::count(text.begin(), end, '\n');
    throw DataError("hardware file " + file + ": line " + std::to_string(line) + " is not valid JSON (" +
                        without_code(error) + ")",
                    MessageCode::invalid_file);
  } catch (const Json::exception& error) {
    throw DataError("hardware file " + file + " cannot be used: " + without_code(error),
                    MessageCode::invalid_file);
  }
  Hardware hardware;
  const Field whole(json, file, "");
  whole.member("nodes", true, [&](const Field& nodes) {
    nodes.each([&](const Field& node) { hardware.nodes.push_back(read_node(node)); });
    if (hardware.nodes.empty()) nodes.refuse("expected at least one node, found none");
  });
  whole.member("env", false, [&](const Field& env) {
    env.each_member([&](const std::string& name, const Field& value) { value.read(hardware.env[name]); });
  });
  for (std::size_t i = 0; i < hardware.nodes.size(); ++i) {
    if (hardware.nodes[i].hostname.empty()) hardware.nodes[i].hostname = std::to_string(i);
  }
  return hardware;
}

std::string to_json(const Hardware& hardware) { return to_json_line(hardware, /*with_visible=*/false); }
std::string to_json_with_visible(const Hardware& hardware) {
  return to_json_line(hardware, /*with_visible=*/true);
}

Hardware merge_hardware(const std::vector<Hardware>& seen, int node, const Hardware& own) {
  Hardware merged;
  merged.env = own.env;
  merged.gpu_support = own.gpu_support;
  merged.cuda_runtime = own.cuda_runtime;
  for (const Hardware& each : seen) merged.nodes.push_back(each.nodes[0]);
  const auto mine = static_cast<std::size_t>(node);
  if (!show_the_same(own, seen[mine])) merged.nodes[mine] = own.nodes[0];
  return merged;
}

Hardware gather_hardware(World& world) {
  const WorldFacts& facts = world.facts();
  const Hardware own = probe_hardware();
  std::vector<Hardware> seen;
  for (const std::string& text :
       world.gather_nodes(facts.local_rank == 0 ? to_json_with_visible(own) : std::string()))
    seen.push_back(parse_hardware(text, "a node's hardware"));
  if (facts.local_rank == 0) {
    // Also what a file of hardware does not hold.
    seen[static_cast<std::size_t>(facts.node)] = own;
  }
  return merge_hardware(seen, facts.node, own);
}

}  // namespace cxtrain
