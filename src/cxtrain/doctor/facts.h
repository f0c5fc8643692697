#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/each_field.h"
#include "cxtrain/cluster/slurm_allocation.h"

/// What `cxtrain_mpi doctor` knows of a world: plain facts, without a judgement. They are gathered by the
/// ranks of a world (`gather`), or read from a recording that was made elsewhere (`parse_recording`).
///
/// The names of the fields are those of the JSON.
///
/// Everywhere an absent value, an empty text, and an absent list mean "not known", unless said otherwise.
namespace cxtrain::doctor {

/// One copy of NCCL that a rank found.
struct NcclFacts {
  std::string path;
  std::string version;  ///< "2.28.9"

  void fields(auto&& field) { CXTRAIN_EACH(field, path, version); }
};

/// What a rank knows of itself.
struct RankFacts {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  std::string host;
  std::optional<std::int64_t> pid;
  std::string cores;  ///< of its mask, "0-3"
  /// Those variables that decide how a training runs (`is_relevant`).
  std::optional<std::map<std::string, std::string>> environment;
  std::optional<std::vector<std::string>> visible_gpus;  ///< UUIDs of those that CUDA shows
  std::vector<std::string> planned_gpus;                 ///< UUIDs of those that it is to use; empty: none
  std::string program_hash;
  std::map<std::string, std::string> library_hashes, plugin_hashes;  ///< by the file's name
  std::optional<std::vector<NcclFacts>> nccl;
  std::string data_fingerprint;
  std::string mpi_version;
  std::string mpi_threads;   ///< what MPI was started with: single, funneled, serialized or multiple
  std::optional<bool> pmix;  ///< whether a PMIx server answers for this process
  std::optional<bool> maps_memory_of_others;  ///< of a rank of its node; absent where it is alone there
  /// Limits of the process, in files and bytes; -1: unlimited.
  std::optional<std::int64_t> open_files, core_bytes, locked_bytes, stack_bytes, data_bytes;

  void fields(auto&& field) {
    CXTRAIN_EACH(field, rank, node, local_rank, host, pid, cores, environment, visible_gpus, planned_gpus,
                 program_hash, library_hashes, plugin_hashes, nccl, data_fingerprint, mpi_version,
                 mpi_threads, pmix, maps_memory_of_others, open_files, core_bytes, locked_bytes, stack_bytes,
                 data_bytes);
  }
};

/// A GPU as hardware.h has it, and what only the driver's tools tell.
struct GpuFacts {
  int index = 0;
  std::string uuid, name;
  std::optional<std::int64_t> memory_total_mib, memory_used_mib;
  std::optional<int> processes, utilization;  ///< utilization in percent
  std::string compute_mode;
  std::string mig;  ///< none, divided or instance
  /// Memory errors that could not be corrected, since the driver was loaded.
  std::optional<std::int64_t> ecc_uncorrected;
  /// Why its clocks are lower than they could be, in NVML's words ("hw_thermal_slowdown"). Harmless reasons
  /// ("gpu_idle") may be left out.
  std::optional<std::vector<std::string>> throttled_by;

  void fields(auto&& field) {
    CXTRAIN_EACH(field, index, uuid, name, memory_total_mib, memory_used_mib, processes, utilization,
                 compute_mode, mig, ecc_uncorrected, throttled_by);
  }
};

/// A folder or a file that the run uses, as a node sees it.
struct FolderFacts {
  std::string path;
  std::optional<bool> exists, readable, writable;
  std::string filesystem;  ///< the type's name: "ext4", "nfs", "tmpfs"
  std::optional<std::int64_t> free_bytes;
  std::optional<double> write_bytes_per_second;
  /// Whether this node sees a file that rank 0 has just written there.
  std::optional<bool> sees_root;

  void fields(auto&& field) {
    CXTRAIN_EACH(field, path, exists, readable, writable, filesystem, free_bytes, write_bytes_per_second,
                 sees_root);
  }
};

struct InterfaceFacts {
  std::string name;
  std::optional<bool> up;
  std::optional<std::int64_t> mbit_per_second;
  std::string address;

  void fields(auto&& field) { CXTRAIN_EACH(field, name, up, mbit_per_second, address); }
};

/// What a node's first rank knows of its machine.
struct NodeFacts {
  int node = 0;
  std::string host;
  std::string boot_id;  ///< of the machine: the same for all containers and emulated nodes of one
  std::string kernel;
  std::optional<int> cores;                                                  ///< of the machine
  std::optional<std::int64_t> memory_total, memory_available, memory_limit;  ///< the limit is the control
                                                                             ///< group's; absent: none
  std::optional<std::int64_t> swap_total, swap_used;
  std::optional<double> load;  ///< runnable processes, a minute's mean
  std::optional<std::vector<GpuFacts>> gpus;
  /// Whether GPU i reads and writes the memory of GPU j, in the order of `gpus`; null in JSON for a pair that
  /// is not known.
  std::optional<std::vector<std::vector<std::optional<bool>>>> peer_access;
  std::string driver_version;  ///< "580.65.06"
  std::string cuda_version;    ///< the newest CUDA that the driver runs
  std::string cuda_failure;    ///< why CUDA cannot start there; empty: nothing is known to prevent it
  std::optional<std::int64_t> shm_size, shm_free;  ///< of /dev/shm
  std::optional<std::int64_t> tmp_free;
  std::optional<FolderFacts> output, data;
  /// How far this node's clock is ahead of node 0's, and by how much that may be wrong; in seconds.
  std::optional<double> clock_offset, clock_error;
  std::optional<std::vector<InterfaceFacts>> interfaces;
  std::optional<std::vector<std::string>> infiniband;  ///< names of the adapters; empty: none

  void fields(auto&& field) {
    CXTRAIN_EACH(field, node, host, boot_id, kernel, cores, memory_total, memory_available, memory_limit,
                 swap_total, swap_used, load, gpus, peer_access, driver_version, cuda_version, cuda_failure,
                 shm_size, shm_free, tmp_free, output, data, clock_offset, clock_error, interfaces,
                 infiniband);
  }
};

/// What there is once.
struct JobFacts {
  std::string version;   ///< cxtrain's
  std::string time;      ///< of the gathering, "2026-01-31T12:00:00Z"
  std::string launcher;  ///< alone, mpirun, srun or spawn
  std::optional<int> world_size, nodes;
  std::optional<int> planned_world_size, planned_nodes;
  std::string accelerator;          ///< cpu or gpu, as planned
  std::string strategy;             ///< as planned
  std::string devices;              ///< as planned, indices into the visible set: "0,1"
  std::optional<int> data_workers;  ///< of each rank
  std::optional<SlurmAllocation> allocation;
  std::string cuda_runtime;  ///< of the build, "13.0"
  std::string libtorch_version;
  std::optional<std::vector<std::string>> image_formats;  ///< that the build reads: JPEG, PNG
  /// One all-reduce over all ranks, on the host.
  std::optional<std::int64_t> reduce_bytes;
  std::optional<double> reduce_seconds, small_reduce_seconds;
  std::string resume_from;                          ///< the checkpoint that a run would go on with
  std::optional<std::vector<std::string>> damaged;  ///< checkpoints that cannot be read
  /// Folders that options name, beside the output folder, and that cannot be written: "OPTION: FOLDER".
  std::optional<std::vector<std::string>> unwritable;

  void fields(auto&& field) {
    CXTRAIN_EACH(field, version, time, launcher, world_size, nodes, planned_world_size, planned_nodes,
                 accelerator, strategy, devices, data_workers, allocation, cuda_runtime, libtorch_version,
                 image_formats, reduce_bytes, reduce_seconds, small_reduce_seconds, resume_from, damaged,
                 unwritable);
  }
};

/// A world at one moment, in the order of nodes and ranks.
struct Recording {
  JobFacts job;
  std::vector<NodeFacts> nodes;
  std::vector<RankFacts> ranks;

  void fields(auto&& field) { CXTRAIN_EACH(field, job, nodes, ranks); }
};

/// The JSON that `parse_recording` reads; what is not known is left out.
std::string to_json(const Recording& recording);

/// Reads a recording: the object itself, or one that has it under "world", as `doctor --json` prints it.
/// Throws DataError naming `file` and the field where a field has another type than it should or a name that
/// there is not; fields that are missing are not known.
Recording parse_recording(std::string_view text, const std::string& file);

}  // namespace cxtrain::doctor
