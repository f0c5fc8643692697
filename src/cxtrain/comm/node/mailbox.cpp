#include "cxtrain/comm/node/mailbox.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "cxtrain/base/align.h"
#include "cxtrain/base/error.h"
#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/comm/node/doorbell.h"

namespace cxtrain {
namespace {

constexpr std::size_t kAlignment = 64;   // bytes, of LibTorch's own tensors
constexpr std::size_t kMaxPieces = 256;  // pieces of memory; each piece has an open file

/// At the beginning of a letter's memory.
struct alignas(kAlignment) Seal {
  std::atomic<std::uint64_t> posted;    ///< letters so far; only the sender writes it
  std::atomic<std::uint64_t> received;  ///< the last letter that the receiver has opened
  std::atomic<std::uint64_t> ended;     ///< the last letter whose tensors have ended
  Doorbell bell;                        ///< rings when the receiver opens a letter
};

Seal& seal_of(const SharedMemory& memory) { return *reinterpret_cast<Seal*>(memory.data()); }

bool is_free(const SharedMemory& memory) {
  const Seal& seal = seal_of(memory);
  return seal.ended.load(std::memory_order_acquire) == seal.posted.load(std::memory_order_relaxed);
}

}  // namespace

std::unique_ptr<Mailbox> Mailbox::make(const MpiComm& comm, const MpiComm& node_comm) {
  if (node_comm.size() == 1) return nullptr;
  if (SharedMemory::of_node(node_comm, sizeof(Seal), {SharedMemory::Backing::anonymous}) == nullptr)
    return nullptr;
  return std::unique_ptr<Mailbox>(new Mailbox(comm, node_comm));
}

Mailbox::Mailbox(const MpiComm& comm, const MpiComm& node_comm)
    : ranks_(static_cast<std::size_t>(node_comm.size())) {
  const int own = comm.rank();
  node_comm.call("an allgather of the node's ranks", [&](MPI_Comm node) {
    return MPI_Allgather(&own, 1, MPI_INT, ranks_.data(), 1, MPI_INT, node);
  });
}

bool Mailbox::reaches(int rank) const { return std::ranges::find(ranks_, rank) != ranks_.end(); }

std::size_t Mailbox::bytes_of(std::span<const at::Tensor> tensors) {
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined()) bytes += round_up(tensor.nbytes(), kAlignment);
  }
  return bytes;
}

/// Sizes are powers of two, so that letters of many lengths need few pieces of memory.
std::shared_ptr<SharedMemory> Mailbox::free_memory(std::size_t bytes) {
  const std::size_t needed = std::bit_ceil(sizeof(Seal) + bytes);
  const auto fits = [needed](const auto& each) { return each->bytes() == needed && is_free(*each); };
  const auto found = std::ranges::find_if(own_, fits);
  if (found != own_.end()) return *found;
  if (own_.size() == kMaxPieces) return nullptr;
  std::shared_ptr<SharedMemory> made = SharedMemory::create(needed);
  if (made != nullptr) own_.push_back(made);
  return made;
}

Mailbox::Posted Mailbox::post(std::span<const at::Tensor> tensors, std::size_t bytes) {
  const std::shared_ptr<SharedMemory> memory = free_memory(bytes);
  if (memory == nullptr) return {};
  std::byte* to = memory->data() + sizeof(Seal);
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    at::from_blob(to, tensor.sizes(), tensor.options().device(at::kCPU)).copy_(tensor.detach());
    to += round_up(tensor.nbytes(), kAlignment);
  }
  const std::uint64_t number = seal_of(*memory).posted.fetch_add(1, std::memory_order_release) + 1;
  return {memory, {memory->address(), number}};
}

bool Mailbox::is_received(const Posted& letter) noexcept {
  return seal_of(*letter.memory).received.load() >= letter.place.number;
}

void Mailbox::wait_until_received(const Posted& letter) {
  seal_of(*letter.memory).bell.sleep_until([&] { return is_received(letter); });
}

/// Ends the letter with its last tensor.
class Mailbox::Letter::Held {
 public:
  explicit Held(std::shared_ptr<SharedMemory> memory) : memory_(std::move(memory)) {}
  ~Held() {
    Seal& seal = seal_of(*memory_);
    seal.ended.store(seal.received.load(std::memory_order_relaxed), std::memory_order_release);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  std::byte* data() const { return memory_->data(); }
  std::size_t bytes() const { return memory_->bytes(); }

 private:
  std::shared_ptr<SharedMemory> memory_;
};

Mailbox::Letter::Letter(std::shared_ptr<SharedMemory> memory)
    : held_(std::make_shared<Held>(std::move(memory))), read_(sizeof(Seal)) {}

at::Tensor Mailbox::Letter::next(at::IntArrayRef sizes, at::ScalarType dtype) {
  const std::size_t left = held_->bytes() - read_;
  std::size_t bytes = c10::elementSize(dtype);
  bool overflows = false;
  for (const std::int64_t size : sizes) {
    overflows = overflows || (size != 0 && bytes > held_->bytes() / static_cast<std::size_t>(size));
    bytes *= static_cast<std::size_t>(size);
  }
  if (overflows || bytes > left)
    throw CommunicationError("a message of another rank of the node is larger than its memory",
                             MessageCode::bad_tensor);
  std::byte* const from = held_->data() + read_;
  read_ += round_up(bytes, kAlignment);
  return at::from_blob(
      from, sizes, [held = held_](void*) {}, at::TensorOptions(dtype));
}

Mailbox::Letter Mailbox::open(const Place& place) {
  std::shared_ptr<SharedMemory>& memory = mapped_[{place.memory.device, place.memory.inode}];
  if (memory == nullptr) {
    // Memory of letters has no name.
    const bool is_possible = place.memory.name[0] == '\0' && place.memory.bytes > sizeof(Seal);
    if (is_possible) memory = SharedMemory::open(place.memory);
    if (memory == nullptr)
      throw CommunicationError("the memory of a message of another rank of the node cannot be mapped");
    memory->close_file();
  }
  Seal& seal = seal_of(*memory);
  if (seal.posted.load(std::memory_order_acquire) != place.number ||
      seal.ended.load(std::memory_order_relaxed) >= place.number)
    throw CommunicationError("a message of another rank of the node is not in its memory");
  seal.received.store(place.number);
  seal.bell.ring();
  return Letter(memory);
}

}  // namespace cxtrain
