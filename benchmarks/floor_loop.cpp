// The floor: a training loop written by hand on LibTorch and, under mpirun, one flat MPI_Allreduce a step. No
// trainer, no hooks, no logging. Prints one JSON line (rank 0).
//
//   bench_floor_loop --model simple|mlp|cnn|gpt --batch N --steps N [--warmup N] [--data PATH] [--tune-malloc
//   1]
//                    [--device cuda:0 [--bf16 1]] [--layers N --heads N --width N --context N]
//
// On a GPU by one process, its clocks read when the GPU has done its work; --bf16 1: under autocast.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randperm.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <malloc.h>
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "cxtrain/base/clock.h"
#include "cxtrain/device/resources.h"
#include "floor/floor_work.h"

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Averages gradients over all ranks: copied into one flat tensor, which MPI reduces and the optimizer then
/// reads.
class FlatReducer {
 public:
  explicit FlatReducer(const FloorAdam& optimizer) {
    for (const auto& group : optimizer.groups()) {
      parameters_.insert(parameters_.end(), group.parameters.begin(), group.parameters.end());
    }
    std::int64_t total = 0;
    for (const at::Tensor& parameter : parameters_) total += parameter.numel();
    flat_ = at::zeros({total});
    std::int64_t offset = 0;
    for (const at::Tensor& parameter : parameters_) {
      views_.push_back(flat_.as_strided(parameter.sizes(), parameter.strides(), offset));
      offset += parameter.numel();
    }
  }

  void reduce(int ranks) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      views_[i].copy_(parameters_[i].grad());
      parameters_[i].mutable_grad() = views_[i];
    }
    MPI_Allreduce(MPI_IN_PLACE, flat_.mutable_data_ptr<float>(), static_cast<int>(flat_.numel()), MPI_FLOAT,
                  MPI_SUM, MPI_COMM_WORLD);
    flat_.div_(ranks);
  }

  void broadcast() {
    for (const at::Tensor& parameter : parameters_) {
      MPI_Bcast(parameter.mutable_data_ptr(), static_cast<int>(parameter.nbytes()), MPI_BYTE, 0,
                MPI_COMM_WORLD);
    }
  }

 private:
  std::vector<at::Tensor> parameters_, views_;
  at::Tensor flat_;
};

/// Waits until the device has done what it was told.
void synchronize(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

/// The device of this name. What a GPU needs of LibTorch is opened where one is asked for.
at::Device open_device(const std::string& name) {
  const at::Device device(name);
  if (device.is_cuda() && dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr)
    throw std::runtime_error(dlerror());
  return device;
}

/// Matrix products in bfloat16 while it lives, where `on`.
class Bfloat16 {
 public:
  Bfloat16(at::Device device, bool on) : type_(device.type()), on_(on) {
    if (!on_) return;
    at::autocast::set_autocast_enabled(type_, true);
    at::autocast::set_autocast_dtype(type_, at::kBFloat16);
  }
  ~Bfloat16() {
    if (!on_) return;
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(type_, false);
  }
  Bfloat16(const Bfloat16&) = delete;
  Bfloat16& operator=(const Bfloat16&) = delete;

 private:
  at::DeviceType type_;
  bool on_;
};

struct Settings {
  std::map<std::string, std::string> values;
  std::string text(const std::string& key, const std::string& otherwise = "") const {
    const auto found = values.find(key);
    return found == values.end() ? otherwise : found->second;
  }
  std::int64_t number(const std::string& key, std::int64_t otherwise) const {
    return std::stoll(text(key, std::to_string(otherwise)));
  }
};

void train(const Settings& settings, int rank, int ranks) {
  FloorTask task{.model = settings.text("--model"),
                 .data = settings.text("--data"),
                 .batch_size = settings.number("--batch", 64),
                 .device = open_device(settings.text("--device", "cpu"))};
  if (!task.device.is_cpu() && ranks > 1) throw std::runtime_error("ranks exchange what lies on the host");
  task.gpt.layers = settings.number("--layers", task.gpt.layers);
  task.gpt.heads = settings.number("--heads", task.gpt.heads);
  task.gpt.width = settings.number("--width", task.gpt.width);
  task.gpt.context = settings.number("--context", task.gpt.context);
  const bool bf16 = settings.number("--bf16", 0) != 0;
  at::manual_seed(0);
  const FloorWork work = make_floor_work(task);
  FloorAdam optimizer = work.make_optimizer();
  std::optional<FlatReducer> reducer;
  if (ranks > 1) reducer.emplace(optimizer).broadcast();
  const std::int64_t steps = settings.number("--steps", 100), warmup = settings.number("--warmup", 10);
  const std::int64_t global = work.batch_size * ranks;
  at::Tensor order, loss;
  double first_step = 0, started = now(), communication = 0;
  std::int64_t epoch = 0, position = work.samples;
  for (std::int64_t step = 0; step < steps; ++step) {
    if (step == warmup) {
      synchronize(task.device);
      started = now(), communication = 0;
    }
    if (position + global > work.samples) {
      order = at::randperm(work.samples, at::detail::createCPUGenerator(static_cast<std::uint64_t>(epoch++)),
                           at::TensorOptions().dtype(at::kLong));
      position = 0;
    }
    {
      const Bfloat16 autocast(task.device, bf16);
      loss = work.loss(order.slice(0, position + rank, position + global, ranks));
    }
    position += global;
    optimizer.zero_grad();
    loss.backward();
    const double before = now();
    if (reducer) reducer->reduce(ranks);
    communication += now() - before;
    optimizer.step();
    if (step > 0) continue;
    synchronize(task.device);
    first_step = cxtrain::seconds_since_process_start();
  }
  synchronize(task.device);
  const auto measured = static_cast<double>(steps - warmup);
  const double seconds = now() - started;
  if (rank != 0) return;
  std::printf(
      "{\"step_us\": %.3f, \"sync_us\": %.3f, \"samples_per_second\": %.2f, \"first_step_seconds\": %.4f, "
      "\"peak_memory_bytes\": %lld, \"loss\": %.9g}\n",
      seconds / measured * 1e6, communication / measured * 1e6,
      measured * static_cast<double>(global) / seconds, first_step,
      static_cast<long long>(cxtrain::peak_resident_bytes()), loss.item<double>());
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) settings.values[argv[i]] = argv[i + 1];
  if (settings.number("--tune-malloc", 0) != 0) {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_TOP_PAD, 64 << 20);
  }
  int rank = 0, ranks = 1;
  const bool mpi = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr;
  if (mpi) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  }
  try {
    train(settings, rank, ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    if (mpi) MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
  if (mpi) MPI_Finalize();
  return 0;
}
