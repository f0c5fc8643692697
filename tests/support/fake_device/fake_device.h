#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

/// An accelerator for tests, without hardware: LibTorch's device type PrivateUse1, called "fake". It computes
/// with the CPU's kernels, but has what a GPU has and a CPU has not: memory and generators of its own for
/// each device, streams, events, pinned memory, copies that end late, and a host that may have to wait. It
/// stands for CUDA where the two could differ.
///
/// A kernel has run when its launch returns. What would be a matter of luck on a GPU is checked instead: two
/// operations on the same bytes that nothing has put into an order are a race, whatever came first this time.
namespace cxtrain::test {

/// Two operations of different streams on the same bytes, at least one of which writes, without an event or
/// a synchronisation between them; the message names both. The later one has not run.
class FakeDeviceRace : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Makes the devices fake:0, ... fake:(count - 1) known to LibTorch, for the rest of the process. The first
/// call decides how many there are; later ones may ask for fewer. Throws std::invalid_argument otherwise. To
/// be called before the first backward pass of the process, where LibTorch starts a thread for each device.
void use_fake_devices(int count);
c10::Device fake_device(int index);

/// All races found since the last call of `forget_fake_races`, also where nothing could be thrown: when
/// memory was freed that another stream may still use, or the host changed pinned memory under a copy.
std::vector<std::string> fake_races();
void forget_fake_races();

/// Whatever this stream is told from now on does not end before it is released: queries say false,
/// and who synchronises with it waits, up to 20 seconds, then throws.
void hold(const c10::Stream& stream);
void release(const c10::Stream& stream);
/// Of one synchronisation with a held stream.
void set_fake_wait_limit(double seconds);

/// Beyond so many bytes on this device an allocation throws c10::OutOfMemoryError. 16 GiB at first.
void set_fake_capacity(c10::Device device, std::size_t bytes);
std::size_t fake_allocated_bytes(c10::Device device);

/// Counts, while it exists, on all threads, by what the host waited for a device: `.item()`, copies that
/// block, synchronisation with an event, a stream, a device, and operations whose result's size or value the
/// host has to know. Questions (`query`) do not count.
class HostReads {
 public:
  HostReads();
  ~HostReads();
  HostReads(const HostReads&) = delete;
  HostReads& operator=(const HostReads&) = delete;

  std::size_t count() const { return names().size(); }
  /// "aten::_local_scalar_dense", "copy device to host", "synchronize event", ..., in order.
  std::vector<std::string> names() const;

 private:
  friend void note_host_read(const std::string& name);
  std::vector<std::string> names_;
};

}  // namespace cxtrain::test
