#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cxtrain/cluster/world.h"
#include "cxtrain/device/nvml.h"
#include "cxtrain/doctor/facts.h"

/// What single facts are read from. Each leaves out what the machine does not tell; none throws, but for want
/// of memory or by the world's collectives.
namespace cxtrain::doctor {

/// Variables that decide how a training runs, without those that hold addresses or keys of a launcher.
bool is_relevant(const std::string& variable);
std::map<std::string, std::string> relevant_environment();

/// The process's limits, MPI and PMIx.
void probe_limits(RankFacts& facts);
void probe_mpi(RankFacts& facts);
/// The hashes of the program and of the libraries of cxtrain, LibTorch, CUDA and MPI that are loaded.
void probe_program(RankFacts& facts);

/// SHA-256 of a file, or, of one with more than 8 MiB, of its size and of parts that are spread over it:
/// builds that differ differ everywhere. Empty where it cannot be read.
std::string file_fingerprint(const std::string& path);

/// Kernel, cores, memory, swap, load, /dev/shm, room for temporary files, driver.
void probe_machine(NodeFacts& facts);
/// Size and free space of a file system, in bytes; absent if the system does not report them.
struct Room {
  std::optional<std::int64_t> size, free;
};
/// Returns the room of the file system that holds `path`.
Room room_of(const std::string& path);
/// What only NVML tells of the GPUs in `facts.gpus`: compute mode, memory errors, throttling, and which reach
/// each other's memory; and the driver's version where the kernel has not told it. GPUs that NVML does not
/// know stay as they are. Makes no CUDA context. `nvml`: the library's name.
void probe_gpus(NodeFacts& facts, const char* nvml = kNvmlLibrary);
/// Interfaces and InfiniBand adapters.
void probe_network(NodeFacts& facts);

/// The folder that is there, of `path` and those that it lies in.
std::string nearest_folder(const std::string& path);
/// The name of the file system that holds a path; "0x..." for one without a name here, empty where it cannot
/// be told.
std::string filesystem_name(const std::string& path);
/// Of the folder that a run is to write: writes 8 MiB and removes them.
FolderFacts probe_output(const std::string& path);
/// Whether a run could write files into this folder, or make it: makes a file there, or in the nearest folder
/// above that exists, and removes the file.
bool takes_files(const std::string& path);
FolderFacts probe_data(const std::string& path);

/// A file that rank 0 has written in its folder is looked for by each node's first rank; absent where rank 0
/// could not write it. Collective; other ranks get nothing.
std::optional<bool> sees_file_of_root(World& world, const std::string& folder);
/// Whether this rank may map memory that the next rank of its node has made; absent where it is alone there.
/// Collective.
std::optional<bool> maps_memory_of_next(World& world);

/// Seconds of an all-reduce of so many doubles, the mean of as many as fit in `budget` seconds. Collective.
double time_reduction(World& world, std::size_t doubles, double budget);

}  // namespace cxtrain::doctor
