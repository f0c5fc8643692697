#pragma once

#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "support/temp_dir.h"

namespace cxtrain::test {

inline const std::string kProgram = std::string(CXTRAIN_BIN_DIR) + "/cxtrain_mpi";
/// Options for a model that fails in the way and at the place that `--model.fault` and its like name.
inline const std::string kFaulty =
    std::string("--plugin ") + CXTRAIN_TEST_PLUGIN_DIR + "/faulty.so --model faulty ";

struct ProgramResult {
  int status = -1;     ///< exit status; 128 + signal
  std::string output;  ///< stdout and stderr
  double seconds = 0;
};

/// The text for a shell, with the project's own folders quoted: a checkout may lie in one with spaces.
inline std::string in_shell(std::string text) {
  for (const std::string folder : {CXTRAIN_SOURCE_DIR, CXTRAIN_BIN_DIR, CXTRAIN_TEST_PLUGIN_DIR}) {
    std::string quoted;
    for (const char c : folder) quoted += c == ' ' ? std::string("\\ ") : std::string(1, c);
    if (quoted == folder) continue;
    for (std::size_t at = 0; (at = text.find(folder, at)) != std::string::npos; at += quoted.size())
      text.replace(at, folder.size(), quoted);
  }
  return text;
}

/// Runs a shell command, ended after `deadline` seconds with status 124.
inline ProgramResult run_command(const std::string& command, int deadline = 120) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string guarded =
      "timeout -k 5 " + std::to_string(deadline) + " bash -c '" + in_shell(command) + "' 2>&1 </dev/null";
  FILE* pipe = popen(guarded.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  ProgramResult result;
  std::array<char, 4096> buffer;
  while (const std::size_t n = fread(buffer.data(), 1, buffer.size(), pipe))
    result.output.append(buffer.data(), n);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

inline ProgramResult run_program(const std::string& arguments) {
  return run_command(kProgram + " " + arguments);
}

/// Some text for byte-level models: the squares of the first 1,000 numbers.
inline std::string text_of_squares() {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += std::to_string(i * i) + ' ';
  return text;
}

inline std::string ranks_command(int ranks, const std::string& arguments) {
  return std::string(CXTRAIN_MPIEXEC) + " -np " + std::to_string(ranks) + " --oversubscribe --bind-to none " +
         kProgram + " " + arguments;
}
inline ProgramResult run_ranks(int ranks, const std::string& arguments) {
  return run_command(ranks_command(ranks, arguments));
}

/// Runs two ranks with different arguments. The script in `dir` reads its rank, since the mpirun of Open MPI
/// 5.0.7 crashes over `-np 1 A : -np 1 B`.
inline ProgramResult run_two_ranks(const TempDir& dir, const std::string& first, const std::string& second) {
  const std::string script =
      dir.write("rank.sh", in_shell("if [ $OMPI_COMM_WORLD_RANK = 0 ]; then exec " + kProgram + " " + first +
                                    "; else exec " + kProgram + " " + second + "; fi\n"));
  return run_command(std::string(CXTRAIN_MPIEXEC) + " -np 2 --oversubscribe --bind-to none sh " + script);
}

}  // namespace cxtrain::test
