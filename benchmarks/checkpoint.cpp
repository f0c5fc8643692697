// A checkpoint of 50 million parameters with AdamW's state (600 MB): how long training stands still against a
// plain memcpy of the same tensors into memory that has been used before, how fast it comes to the disk
// against a raw write and fsync of as many bytes, and how fast it is read from the disk against reading the
// files. In turns, the first two in changing order, each after a step that has touched the tensors: on a
// virtual machine memory that nobody has touched for a second takes up to twice as long. One JSON line.
//
//   bench_checkpoint [--rounds N] [--dir FOLDER]

#include <ATen/ops/mul.h>
#include <ATen/ops/rand.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/checkpoint/checkpoint_folder.h"
#include "cxtrain/checkpoint/checkpoint_reader.h"
#include "cxtrain/trainer/checkpointer.h"
#include "cxtrain/trainer/module.h"

namespace {

using namespace cxtrain;

constexpr std::int64_t kLayers = 50, kLayer = 1'000'000;
constexpr std::size_t kBytes = std::size_t{3} * kLayers * kLayer * sizeof(float);

class Large : public Module {
 public:
  Large() {
    for (std::int64_t i = 0; i < kLayers; ++i)
      register_parameter("layer" + std::to_string(i), at::rand({1000, kLayer / 1000}));
  }
  StepOutput training_step(const Batch&, std::int64_t) override { return {}; }
  Optimizers configure_optimizers() override { return AdamW{}; }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void write_raw(const std::string& path, const char* bytes) {
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0666);
  for (std::size_t done = 0; done < kBytes;) {
    const ssize_t written = write(file, bytes + done, std::min(kBytes - done, std::size_t{4} << 20));
    if (written <= 0) std::exit(1);
    done += static_cast<std::size_t>(written);
  }
  if (fsync(file) != 0 || close(file) != 0) std::exit(1);
}

void read_raw(const std::string& folder, const Manifest& manifest, std::vector<char>& memory) {
  std::size_t offset = 0;
  for (const CheckpointFile& each : manifest.files) {
    const auto file = real_filesystem().open(folder + "/" + each.name);
    offset +=
        file->read(0, {memory.data() + offset, std::min<std::size_t>(each.bytes, memory.size() - offset)});
  }
}

/// Has the system forget what it keeps of the files, so that the next one to read them goes to the disk.
void forget(const std::string& folder, const Manifest& manifest) {
  for (const CheckpointFile& each : manifest.files) {
    const int file = open((folder + "/" + each.name).c_str(), O_RDONLY);
    if (posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) != 0 || close(file) != 0) std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 7;
  std::string folder = ".";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--rounds") == 0) rounds = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--dir") == 0) folder = argv[i + 1];
  }
  const std::string path = folder + "/bench.ckpt", raw = folder + "/bench.raw";
  const SteadyClock clock;
  SoloWorld world;
  Large model;
  StateDict state;
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& named : model.all_parameters()) {
    state.make_section("model").make_section("parameters").set(named.name, named.tensor);
    tensors.push_back(named.tensor.detach());
    for (const char* moment : {"exp_avg.", "exp_avg_sq."})
      state.make_section("optimization").set(moment + named.name, tensors.emplace_back(at::rand({kLayer})));
  }
  // Values as the checkpoint's: disks and machines below them may do better with bytes that repeat.
  const at::Tensor values = at::rand({static_cast<std::int64_t>(kBytes / sizeof(float))});
  const auto* from = static_cast<const char*>(values.data_ptr());
  std::vector<char> to(kBytes, 2);
  Checkpointer checkpointer({world, real_filesystem(), trainable(model), nullptr, {}});
  std::vector<double> copy, stall, raw_write, save, raw_read, load;
  const auto timed = [&](std::vector<double>& times, auto&& work) {
    const double begin = clock.now();
    work();
    times.push_back(clock.now() - begin);
  };
  const auto step = [&] {
    for (at::Tensor& tensor : tensors) tensor.mul_(0.999);
  };
  const auto copy_tensors = [&] {
    step();
    timed(copy, [&] {
      char* target = to.data();
      for (const at::Tensor& tensor : tensors) {
        std::memcpy(target, tensor.const_data_ptr(), tensor.nbytes());
        target += tensor.nbytes();
      }
    });
  };
  const auto save_tensors = [&] {
    step();
    const double begin = clock.now();
    timed(stall, [&] { checkpointer.begin(state, {.path = path}, {}); });
    checkpointer.finish();
    save.push_back(clock.now() - begin - stall.back());
  };
  for (int round = -1; round < rounds; ++round) {
    if (round % 2 == 0) {
      copy_tensors();
      save_tensors();
    } else {
      save_tensors();
      copy_tensors();
    }
    timed(raw_write, [&] { write_raw(raw, from); });
    const Manifest manifest = read_manifest(real_filesystem(), path);
    forget(path, manifest);
    timed(raw_read, [&] { read_raw(path, manifest, to); });
    forget(path, manifest);
    timed(load, [&] {
      StateDict loaded;
      verify_files_during(real_filesystem(), path, manifest, 0, 1,
                          [&] { loaded = CheckpointReader(real_filesystem(), path, manifest).state(0); });
      loaded.clone();  // reads the tensors
    });
    if (round >= 0) continue;  // memory and files are made
    for (auto* times : {&copy, &stall, &raw_write, &save, &raw_read, &load}) times->clear();
  }
  remove_checkpoint(real_filesystem(), path);
  std::filesystem::remove(raw);
  std::printf(
      "{\"bytes\": %zu, \"memcpy\": %.4f, \"stall\": %.4f, \"stall_over_memcpy\": %.3f, \"raw_write\": %.4f, "
      "\"save\": %.4f, \"write_speed_over_raw\": %.3f, \"raw_read\": %.4f, \"load\": %.4f}\n",
      kBytes, median(copy), median(stall), median(stall) / median(copy), median(raw_write), median(save),
      median(raw_write) / median(save), median(raw_read), median(load));
  return 0;
}
