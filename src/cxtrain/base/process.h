#pragma once

#include <cstdint>
#include <string>

namespace cxtrain {

/// Makes a process safe to write files in, whoever started it. The first thing that a program does, before it
/// opens anything.
///
/// Standard descriptors that are closed are opened on /dev/null, stdout on /dev/full, where a write fails as
/// it did: the next file would get their number, and with it what is meant for the console. SIGPIPE and
/// SIGXFSZ are ignored: a reader that is gone and a file that is too large become errors of the write.
/// SIGUSR1, a batch system's warning, is kept for the first run (`StopSignals::note_early`).
void set_up_process();

/// The file of the program that this process runs, as an absolute path; empty where the system does not say
/// it.
std::string program_path();

/// The folder of the library that cxtrain is (or of the program, where it is linked into that), as an
/// absolute path; what is installed with it lies beside it. Empty where the loader does not say it.
std::string library_folder();

/// Whether CUDA's half of cxtrain lies beside the library: without it a program cannot use a GPU.
bool has_cuda_library();
/// Where it is looked for.
std::string cuda_library_path();

/// The name of this machine, as gethostname(2) gives it.
std::string hostname();

/// The training step of this process, for reports of errors. Handlers of signals may read the step.
class CurrentStep {
 public:
  /// `step`: number of optimizer steps done; -1: no training is running.
  static void set(std::int64_t step) noexcept;
  static std::int64_t get() noexcept;
};

}  // namespace cxtrain
