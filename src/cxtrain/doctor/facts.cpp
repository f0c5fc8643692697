#include "cxtrain/doctor/facts.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <set>
#include <type_traits>

#include "cxtrain/base/error.h"

namespace cxtrain::doctor {
namespace {

using Json = nlohmann::ordered_json;

// Each struct's fields are listed once, for both directions: `Visit` is a FactWriter or a FactReader.

template <class Visit>
void visit_fields(Visit& visit, NcclFacts& nccl) {
  visit("path", nccl.path);
  visit("version", nccl.version);
}

template <class Visit>
void visit_fields(Visit& visit, RankFacts& rank) {
  visit("rank", rank.rank);
  visit("node", rank.node);
  visit("local_rank", rank.local_rank);
  visit("host", rank.host);
  visit("pid", rank.pid);
  visit("cores", rank.cores);
  visit("environment", rank.environment);
  visit("visible_gpus", rank.visible_gpus);
  visit("planned_gpus", rank.planned_gpus);
  visit("program_hash", rank.program_hash);
  visit("library_hashes", rank.library_hashes);
  visit("plugin_hashes", rank.plugin_hashes);
  visit("nccl", rank.nccl);
  visit("data_fingerprint", rank.data_fingerprint);
  visit("mpi_version", rank.mpi_version);
  visit("mpi_threads", rank.mpi_threads);
  visit("pmix", rank.pmix);
  visit("maps_memory_of_others", rank.maps_memory_of_others);
  visit("open_files", rank.open_files);
  visit("core_bytes", rank.core_bytes);
  visit("locked_bytes", rank.locked_bytes);
  visit("stack_bytes", rank.stack_bytes);
  visit("data_bytes", rank.data_bytes);
}

template <class Visit>
void visit_fields(Visit& visit, GpuFacts& gpu) {
  visit("index", gpu.index);
  visit("uuid", gpu.uuid);
  visit("name", gpu.name);
  visit("memory_total_mib", gpu.memory_total_mib);
  visit("memory_used_mib", gpu.memory_used_mib);
  visit("processes", gpu.processes);
  visit("utilization", gpu.utilization);
  visit("compute_mode", gpu.compute_mode);
  visit("mig", gpu.mig);
  visit("ecc_uncorrected", gpu.ecc_uncorrected);
  visit("throttled_by", gpu.throttled_by);
}

template <class Visit>
void visit_fields(Visit& visit, FolderFacts& folder) {
  visit("path", folder.path);
  visit("exists", folder.exists);
  visit("readable", folder.readable);
  visit("writable", folder.writable);
  visit("filesystem", folder.filesystem);
  visit("free_bytes", folder.free_bytes);
  visit("write_bytes_per_second", folder.write_bytes_per_second);
  visit("sees_root", folder.sees_root);
}

template <class Visit>
void visit_fields(Visit& visit, InterfaceFacts& interface) {
  visit("name", interface.name);
  visit("up", interface.up);
  visit("mbit_per_second", interface.mbit_per_second);
  visit("address", interface.address);
}

template <class Visit>
void visit_fields(Visit& visit, NodeFacts& node) {
  visit("node", node.node);
  visit("host", node.host);
  visit("boot_id", node.boot_id);
  visit("kernel", node.kernel);
  visit("cores", node.cores);
  visit("memory_total", node.memory_total);
  visit("memory_available", node.memory_available);
  visit("memory_limit", node.memory_limit);
  visit("swap_total", node.swap_total);
  visit("swap_used", node.swap_used);
  visit("load", node.load);
  visit("gpus", node.gpus);
  visit("peer_access", node.peer_access);
  visit("driver_version", node.driver_version);
  visit("cuda_version", node.cuda_version);
  visit("cuda_failure", node.cuda_failure);
  visit("shm_size", node.shm_size);
  visit("shm_free", node.shm_free);
  visit("tmp_free", node.tmp_free);
  visit("output", node.output);
  visit("data", node.data);
  visit("clock_offset", node.clock_offset);
  visit("clock_error", node.clock_error);
  visit("interfaces", node.interfaces);
  visit("infiniband", node.infiniband);
}

template <class Visit>
void visit_fields(Visit& visit, AllocationFacts& allocation) {
  visit("job", allocation.job);
  visit("nodes", allocation.nodes);
  visit("tasks_per_node", allocation.tasks_per_node);
  visit("cpus_per_node", allocation.cpus_per_node);
  visit("is_here", allocation.is_here);
}

template <class Visit>
void visit_fields(Visit& visit, JobFacts& job) {
  visit("version", job.version);
  visit("time", job.time);
  visit("launcher", job.launcher);
  visit("world_size", job.world_size);
  visit("nodes", job.nodes);
  visit("planned_world_size", job.planned_world_size);
  visit("planned_nodes", job.planned_nodes);
  visit("accelerator", job.accelerator);
  visit("strategy", job.strategy);
  visit("devices", job.devices);
  visit("data_workers", job.data_workers);
  visit("allocation", job.allocation);
  visit("cuda_runtime", job.cuda_runtime);
  visit("libtorch_version", job.libtorch_version);
  visit("reduce_bytes", job.reduce_bytes);
  visit("reduce_seconds", job.reduce_seconds);
  visit("small_reduce_seconds", job.small_reduce_seconds);
  visit("resume_from", job.resume_from);
  visit("damaged", job.damaged);
  visit("unwritable", job.unwritable);
}

template <class Visit>
void visit_fields(Visit& visit, Recording& recording) {
  visit("job", recording.job);
  visit("nodes", recording.nodes);
  visit("ranks", recording.ranks);
}

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;
template <class T>
constexpr bool is_list = false;
template <class T>
constexpr bool is_list<std::vector<T>> = true;
using TextMap = std::map<std::string, std::string>;

class FactWriter {
 public:
  template <class T>
  void operator()(const char* name, T& value) {
    if constexpr (is_optional<T>) {
      if (value) object_[name] = json_of(*value);
    } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, TextMap>) {
      if (!value.empty()) object_[name] = value;
    } else {
      object_[name] = json_of(value);
    }
  }

  template <class T>
  static Json json_of(T& value) {
    if constexpr (is_optional<T>) {
      return value ? json_of(*value) : Json();
    } else if constexpr (is_list<T>) {
      Json list = Json::array();
      for (auto&& element : value) list.push_back(json_of(element));
      return list;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                         std::is_same_v<T, TextMap>) {
      return Json(value);
    } else {
      FactWriter writer;
      visit_fields(writer, value);
      return std::move(writer.object_);
    }
  }

 private:
  Json object_ = Json::object();
};

class FactReader {
 public:
  FactReader(const Json& json, const std::string& file, std::string path)
      : json_(json), file_(file), path_(std::move(path)) {}

  template <class T>
  void operator()(const char* name, T& value) {
    known_.insert(name);
    const auto found = json_.find(name);
    if (found == json_.end() || found->is_null()) return;
    FactReader(*found, file_, path_.empty() ? name : path_ + "." + name).read(value);
  }

  template <class T>
  void read(T& value) {
    if constexpr (is_optional<T>) {
      if (!json_.is_null()) read(value.emplace());
    } else if constexpr (is_list<T>) {
      if (!json_.is_array()) refuse("a list");
      value.clear();
      for (std::size_t i = 0; i < json_.size(); ++i) {
        typename T::value_type element{};
        FactReader(json_[i], file_, path_ + "[" + std::to_string(i) + "]").read(element);
        value.push_back(std::move(element));
      }
    } else if constexpr (std::is_same_v<T, TextMap>) {
      if (!json_.is_object()) refuse("an object");
      for (const auto& [name, text] : json_.items())
        FactReader(text, file_, path_ + "." + name).read(value[name]);
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!json_.is_string()) refuse("a text");
      value = json_.get<std::string>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json_.is_boolean()) refuse("true or false");
      value = json_.get<bool>();
    } else if constexpr (std::is_same_v<T, double>) {
      if (!json_.is_number()) refuse("a number");
      value = json_.get<double>();
    } else if constexpr (std::is_integral_v<T>) {
      read_integer(value);
    } else {
      read_object(value);
    }
  }

 private:
  template <class Integer>
  void read_integer(Integer& value) const {
    if (!json_.is_number_integer()) refuse("a whole number");
    if (json_.is_number_unsigned() && json_.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
      refuse("a smaller number");
    const auto number = json_.get<std::int64_t>();
    if (number < -1 || number > std::numeric_limits<Integer>::max()) refuse("a number of things");
    value = static_cast<Integer>(number);
  }

  template <class Struct>
  void read_object(Struct& value) {
    if (!json_.is_object()) refuse("an object");
    visit_fields(*this, value);
    for (const auto& [name, ignored] : json_.items()) {
      if (!known_.contains(name))
        throw DataError("recording " + file_ + ": " + (path_.empty() ? "" : path_ + ".") +
                            shortened(name, 40) + ": there is no field of this name",
                        MessageCode::unknown_option);
    }
  }

  [[noreturn]] void refuse(const std::string& expected) const {
    const std::string found = json_.is_structured()
                                  ? json_.type_name()
                                  : json_.dump(-1, ' ', false, Json::error_handler_t::replace);
    throw DataError("recording " + file_ + ": " + (path_.empty() ? "the whole" : path_) + ": expected " +
                        expected + ", found " + shortened(found, 40),
                    MessageCode::invalid_file);
  }

  const Json& json_;
  const std::string& file_;
  std::string path_;
  std::set<std::string, std::less<>> known_;
};

template <class Facts>
std::string text_of_facts(Facts facts) {
  return FactWriter::json_of(facts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json parse_facts_json(std::string_view text, const std::string& file) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw DataError("recording " + file + " is not JSON: " + shortened(error.what(), 300),
                    MessageCode::invalid_file);
  }
}

template <class Facts>
Facts facts_of_json(const Json& json, const std::string& file) {
  Facts facts;
  FactReader(json, file, "").read(facts);
  return facts;
}

}  // namespace

std::string to_json(const Recording& recording) { return text_of_facts(recording); }

Recording parse_recording(std::string_view text, const std::string& file) {
  const Json json = parse_facts_json(text, file);
  if (json.is_object() && json.contains("world")) return facts_of_json<Recording>(json["world"], file);
  return facts_of_json<Recording>(json, file);
}

}  // namespace cxtrain::doctor
