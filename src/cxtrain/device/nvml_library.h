#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cxtrain/device/driver_library.h"
#include "cxtrain/device/hardware.h"

namespace cxtrain {

/// The driver's management library with a session in it, and what several files ask of it. Its stable C
/// interface is declared where it is used, as its header comes with the CUDA toolkit only. What the library
/// lacks, or refuses to tell, is absent: nothing here throws for it.
class NvmlLibrary {
 public:
  using Device = struct nvmlDevice_st*;
  static constexpr int kSuccess = 0;
  static constexpr int kInsufficientSize = 7;

  /// A GPU or a MIG instance.
  struct Found {
    Device device = nullptr;
    int index = 0;  ///< Gpu::index
    Mig mig = Mig::none;
    Device divided = nullptr;  ///< of an instance: the GPU that it is a part of
  };

  explicit NvmlLibrary(const char* name);
  ~NvmlLibrary();
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  bool started() const { return started_; }

  /// Calls the function of this name; an error of NVML's when the library has none.
  template <class Signature, class... Args>
  int call(const char* name, Args... args) const {
    constexpr int kFunctionNotFound = 13;
    return library_.call_or<Signature>(kFunctionNotFound, name, args...);
  }

  /// What the function of this name writes to where its last argument points.
  template <class Value, class... Args>
  std::optional<Value> ask(const char* name, Args... args) const {
    Value value{};
    const int status = call<int(Args..., Value*)>(name, args..., &value);
    return status == kSuccess ? std::optional(value) : std::nullopt;
  }

  /// The GPU of this index in PCI bus order; null for none.
  Device device(unsigned int index) const;
  /// All GPUs in PCI bus order, then the instances of those that MIG divides.
  std::vector<Found> devices() const;

  /// What the function of this name writes as a text; empty where it does not succeed.
  std::string text(const char* name, Device device) const;
  std::string uuid(Device device) const { return text("nvmlDeviceGetUUID", device); }
  /// Gpu::compute_mode.
  std::optional<std::string> compute_mode(Device device) const;

 private:
  DriverLibrary library_;
  bool started_ = false;
};

}  // namespace cxtrain
