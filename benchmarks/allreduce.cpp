// Gradients reduced in place in the window that a node's ranks share, against MPI_Allreduce on ordinary
// memory: in one call, and in pieces of 1 and 4 MiB. One JSON line per size (rank 0).
//
//   mpirun -np 2 bench_allreduce [--rounds N]

#include <ATen/ops/zeros.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/host_communicator.h"

namespace {

using namespace cxtrain;

void plain(const at::Tensor& tensor, std::int64_t piece_bytes) {
  auto* data = tensor.mutable_data_ptr<float>();
  const std::int64_t count = tensor.numel(), piece = piece_bytes / 4;
  for (std::int64_t begin = 0; begin < count; begin += piece) {
    MPI_Allreduce(MPI_IN_PLACE, data + begin, static_cast<int>(std::min(piece, count - begin)), MPI_FLOAT,
                  MPI_SUM, MPI_COMM_WORLD);
  }
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Microseconds until the last rank is through.
double timed(const std::function<void()>& work) {
  const SteadyClock clock;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = clock.now();
  work();
  double seconds = clock.now() - begin;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds * 1e6;
}

void measure(HostCommunicator& communicator, std::int64_t numel, int rounds, bool report) {
  const at::Tensor window = communicator.allocate(numel, at::kFloat, at::kCPU);
  const at::Tensor memory = at::zeros({numel});
  const std::array<std::function<void()>, 4> ways = {
      [&] { communicator.all_reduce(window, ReduceOp::avg); },
      [&] { plain(memory, numel * 4); },
      [&] { plain(memory, std::int64_t{1} << 20); },
      [&] { plain(memory, std::int64_t{4} << 20); },
  };
  std::array<std::vector<double>, 4> times;
  std::vector<double> ratios;
  for (int round = -2; round < rounds; ++round) {
    std::array<double, 4> now{};
    for (std::size_t way = 0; way < ways.size(); ++way) {
      (way == 0 ? window : memory).fill_(1);  // in training, too, the gradients have just been written
      now[way] = timed(ways[way]);
    }
    if (round < 0) continue;  // pages and routes are set up
    for (std::size_t way = 0; way < ways.size(); ++way) times[way].push_back(now[way]);
    ratios.push_back(now[0] / std::min({now[1], now[2], now[3]}));
  }
  if (!report) return;
  std::printf(
      "{\"megabytes\": %.2f, \"window_us\": %.1f, \"one_call_us\": %.1f, \"pieces_1_mib_us\": %.1f, "
      "\"pieces_4_mib_us\": %.1f, \"ratio\": %.3f}\n",
      static_cast<double>(numel) * 4e-6, median(times[0]), median(times[1]), median(times[2]),
      median(times[3]), median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc == 3 && std::string(argv[1]) == "--rounds" ? std::atoi(argv[2]) : 41;
  const auto world = MpiWorld::start();
  HostCommunicator communicator(*world);
  for (const std::int64_t numel : {67'500, 675'000, 6'500'000, 26'250'000}) {
    measure(communicator, numel, rounds, world->is_root());
  }
  return 0;
}
