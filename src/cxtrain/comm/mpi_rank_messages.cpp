#include <ATen/ops/empty.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/mpi_collectives.h"
#include "cxtrain/comm/rank_messages.h"

namespace cxtrain {
namespace {

constexpr const char* kWaiting = "a message of another rank";
constexpr std::int64_t kUndefined = -1;

/// The number of tensors, and for each its dtype (`kUndefined`: there is none), its dimensions and sizes.
std::vector<std::int64_t> header_of(std::span<const at::Tensor> tensors) {
  std::vector<std::int64_t> header{static_cast<std::int64_t>(tensors.size())};
  for (const at::Tensor& tensor : tensors) {
    header.push_back(tensor.defined() ? static_cast<std::int64_t>(tensor.scalar_type()) : kUndefined);
    if (!tensor.defined()) continue;
    header.push_back(tensor.dim());
    header.insert(header.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  return header;
}

/// Reads a header from its beginning to its end.
class HeaderReader {
 public:
  HeaderReader(std::span<const std::int64_t> header, int from) : rest_(header), from_(from) {}

  std::int64_t next(std::int64_t least, std::int64_t most) {
    if (rest_.empty() || rest_.front() < least || rest_.front() > most)
      throw CommunicationError("rank " + std::to_string(from_) + " sent a message that describes no tensors",
                               MessageCode::bad_tensor);
    const std::int64_t value = rest_.front();
    rest_ = rest_.subspan(1);
    return value;
  }

  /// Memory for the next tensor; undefined if it is undefined.
  at::Tensor next_tensor() {
    constexpr auto kDtypes = static_cast<std::int64_t>(at::ScalarType::NumOptions);
    const std::int64_t dtype = next(kUndefined, kDtypes - 1);
    if (dtype == kUndefined) return {};
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(next(0, 64)));
    for (std::int64_t& size : sizes) size = next(0, std::int64_t{1} << 40);
    return at::empty(sizes, static_cast<at::ScalarType>(dtype));
  }

 private:
  std::span<const std::int64_t> rest_;
  int from_;
};

int mpi_count(std::size_t bytes) { return static_cast<int>(std::min(bytes, kMpiPiece)); }

class MpiRankMessages final : public RankMessages {
 public:
  explicit MpiRankMessages(MpiComm comm) : comm_(std::move(comm)) {}
  ~MpiRankMessages() override;
  MpiRankMessages(const MpiRankMessages&) = delete;
  MpiRankMessages& operator=(const MpiRankMessages&) = delete;

  void send(std::span<const at::Tensor> tensors, int to, int tag) override;
  std::vector<at::Tensor> receive(int from, int tag) override;
  void wait_for_all_but(std::size_t count) override;

 private:
  /// A message on its way, with the memory that MPI reads.
  struct Sent {
    std::vector<std::int64_t> header;
    std::vector<at::Tensor> tensors;
    std::vector<MPI_Request> requests;
  };
  void forget_received();
  void receive_bytes(void* data, int bytes, int from, int tag) const;

  MpiComm comm_;
  std::unique_ptr<std::deque<Sent>> sent_ = std::make_unique<std::deque<Sent>>();
};

MpiRankMessages::~MpiRankMessages() {
  // On the way out of an error nobody may receive: the memory stays with MPI to the end of the process.
  if (!sent_->empty()) static_cast<void>(sent_.release());
}

void MpiRankMessages::send(std::span<const at::Tensor> tensors, int to, int tag) {
  forget_received();
  Sent& sent = sent_->emplace_back();
  sent.header = header_of(tensors);
  const auto begin = [&](const void* data, std::size_t bytes) {
    MPI_Request& request = sent.requests.emplace_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(data, mpi_count(bytes), MPI_BYTE, to, tag, comm_.get(), &request), "MPI_Isend");
  };
  begin(sent.header.data(), sent.header.size() * sizeof(std::int64_t));
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    sent.tensors.push_back(tensor.detach().cpu().contiguous());
    const auto* const data = static_cast<const std::byte*>(sent.tensors.back().const_data_ptr());
    const std::size_t bytes = sent.tensors.back().nbytes();
    for (std::size_t at = 0; at < bytes; at += kMpiPiece) begin(data + at, bytes - at);
  }
}

void MpiRankMessages::receive_bytes(void* data, int bytes, int from, int tag) const {
  MPI_Status status;
  comm_.call(
      kWaiting, [&](MPI_Comm ranks) { return MPI_Recv(data, bytes, MPI_BYTE, from, tag, ranks, &status); },
      Watchdog::Wait::Of::some_ranks);
  int received = 0;
  MPI_Get_count(&status, MPI_BYTE, &received);
  if (received != bytes)
    throw CommunicationError("rank " + std::to_string(from) + " sent " + std::to_string(received) +
                                 " bytes of a message instead of " + std::to_string(bytes),
                             MessageCode::bad_tensor);
}

std::vector<at::Tensor> MpiRankMessages::receive(int from, int tag) {
  MPI_Status waiting;
  comm_.call(
      kWaiting, [&](MPI_Comm ranks) { return MPI_Probe(from, tag, ranks, &waiting); },
      Watchdog::Wait::Of::some_ranks);
  int bytes = 0;
  MPI_Get_count(&waiting, MPI_BYTE, &bytes);
  std::vector<std::int64_t> header(static_cast<std::size_t>(bytes) / sizeof(std::int64_t));
  receive_bytes(header.data(), static_cast<int>(header.size() * sizeof(std::int64_t)), from, tag);
  HeaderReader reader(header, from);
  std::vector<at::Tensor> tensors(static_cast<std::size_t>(reader.next(0, 1 << 20)));
  for (at::Tensor& tensor : tensors) {
    tensor = reader.next_tensor();
    if (!tensor.defined()) continue;
    auto* const data = static_cast<std::byte*>(tensor.mutable_data_ptr());
    for (std::size_t at = 0; at < tensor.nbytes(); at += kMpiPiece)
      receive_bytes(data + at, mpi_count(tensor.nbytes() - at), from, tag);
  }
  return tensors;
}

void MpiRankMessages::forget_received() {
  while (!sent_->empty()) {
    std::vector<MPI_Request>& requests = sent_->front().requests;
    int done = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE),
              "MPI_Testall");
    if (done == 0) return;
    sent_->pop_front();
  }
}

void MpiRankMessages::wait_for_all_but(std::size_t count) {
  for (; sent_->size() > count; sent_->pop_front()) {
    std::vector<MPI_Request>& requests = sent_->front().requests;
    comm_.call(
        "another rank that receives a message",
        [&](MPI_Comm) {
          return MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
        },
        Watchdog::Wait::Of::some_ranks);
  }
}

}  // namespace

std::unique_ptr<RankMessages> make_rank_messages(World& world) {
  auto* mpi = dynamic_cast<MpiWorld*>(&world);
  if (mpi == nullptr) throw CommunicationError("messages between ranks need MPI");
  return std::make_unique<MpiRankMessages>(mpi->comm().duplicate());
}

}  // namespace cxtrain
