#include "cxtrain/trainer/train_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <mutex>

namespace cxtrain {
namespace {

at::Generator cpu_generator() { return at::detail::getDefaultCPUGenerator(); }

at::Generator cuda_generator(int device) {
  return at::globalContext().defaultGenerator(at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device)));
}

std::string read(at::Generator generator) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  const at::Tensor state = generator.get_state();
  return {static_cast<const char*>(state.const_data_ptr()), state.nbytes()};
}

void write(at::Generator generator, const std::string& bytes) {
  const at::Tensor state = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  std::memcpy(state.mutable_data_ptr(), bytes.data(), bytes.size());
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

void seed_one(at::Generator generator, std::uint64_t seed) {
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace

void capture_rng(TrainState& state, int cuda_device) {
  state.cpu_rng = read(cpu_generator());
  if (cuda_device >= 0) state.cuda_rng = read(cuda_generator(cuda_device));
}

void restore_rng(const TrainState& state, int cuda_device) {
  if (!state.cpu_rng.empty()) write(cpu_generator(), state.cpu_rng);
  if (cuda_device >= 0 && !state.cuda_rng.empty()) write(cuda_generator(cuda_device), state.cuda_rng);
}

void seed_everything(std::uint64_t seed, int cuda_device) {
  seed_one(cpu_generator(), seed);
  if (cuda_device >= 0) seed_one(cuda_generator(cuda_device), seed);
}

}  // namespace cxtrain
