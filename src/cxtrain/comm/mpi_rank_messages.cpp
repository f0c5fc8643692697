#include <ATen/ops/empty.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/cluster/mpi_world.h"
#include "cxtrain/comm/mpi_collectives.h"
#include "cxtrain/comm/node/mailbox.h"
#include "cxtrain/comm/rank_messages.h"

namespace cxtrain {
namespace {

constexpr const char* kWaiting = "a message of another rank";
constexpr const char* kReceiver = "another rank that receives a message";
constexpr std::int64_t kUndefined = -1;
constexpr std::size_t kSmall = 4096;  // bytes

/// How a message's values travel.
enum Way : std::int64_t { by_mpi, in_mailbox };
/// A place in a mailbox, as numbers of a header.
using PlaceNumbers = std::array<std::int64_t, sizeof(Mailbox::Place) / sizeof(std::int64_t)>;

/// The way (`by_mpi`), the number of tensors, and for each its dtype (`kUndefined`: there is none), its
/// dimensions and sizes. A place follows in the header of a message in a mailbox.
std::vector<std::int64_t> header_of(std::span<const at::Tensor> tensors) {
  std::vector<std::int64_t> header{by_mpi, static_cast<std::int64_t>(tensors.size())};
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

  struct Kind {
    at::ScalarType dtype;
    std::vector<std::int64_t> sizes;
  };
  /// Returns the kind of the next tensor; absent if the tensor is undefined.
  std::optional<Kind> next_kind() {
    constexpr auto kLast = static_cast<std::int64_t>(at::ScalarType::Undefined) - 1;
    const std::int64_t dtype = next(kUndefined, kLast);
    if (dtype == kUndefined) return std::nullopt;
    Kind kind{static_cast<at::ScalarType>(dtype), {}};
    kind.sizes.resize(static_cast<std::size_t>(next(0, 64)));
    for (std::int64_t& size : kind.sizes) size = next(0, std::int64_t{1} << 40);
    return kind;
  }

  std::vector<std::optional<Kind>> next_kinds() {
    std::vector<std::optional<Kind>> kinds(static_cast<std::size_t>(next(0, 1 << 20)));
    for (std::optional<Kind>& kind : kinds) kind = next_kind();
    return kinds;
  }

  Mailbox::Place next_place() {
    PlaceNumbers numbers;
    constexpr auto kAny = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t& number : numbers) number = next(-kAny - 1, kAny);
    return std::bit_cast<Mailbox::Place>(numbers);
  }

 private:
  std::span<const std::int64_t> rest_;
  int from_;
};

int mpi_count(std::size_t bytes) { return static_cast<int>(std::min(bytes, kMpiPiece)); }

/// Messages to ranks of the same node lie in a mailbox, where the node can have one: MPI then carries their
/// headers only.
class MpiRankMessages final : public RankMessages {
 public:
  MpiRankMessages(MpiComm comm, std::unique_ptr<Mailbox> mailbox)
      : comm_(std::move(comm)), mailbox_(std::move(mailbox)) {}
  ~MpiRankMessages() override;
  MpiRankMessages(const MpiRankMessages&) = delete;
  MpiRankMessages& operator=(const MpiRankMessages&) = delete;

  void send(std::span<const at::Tensor> tensors, int to, int tag) override;
  std::vector<at::Tensor> receive(int from, int tag) override;
  void wait_for_all_but(std::size_t count, int tag) override;
  void wait_for_all() override;

 private:
  /// A message on its way, with the memory that MPI reads.
  struct Sent {
    std::vector<std::int64_t> header;
    std::vector<at::Tensor> tensors;
    std::vector<MPI_Request> requests;
    Mailbox::Posted letter;  ///< without memory: the values travel by MPI
  };
  /// Puts a message's values into the mailbox. Returns false if it has to travel by MPI.
  bool post(std::span<const at::Tensor> tensors, int to, Sent& sent);
  static bool is_taken(Sent& sent);
  void wait_for(Sent& sent) const;
  void receive_bytes(void* data, int bytes, int from, int tag) const;

  MpiComm comm_;
  std::unique_ptr<Mailbox> mailbox_;
  using SentByTag = std::map<int, std::deque<Sent>>;
  std::unique_ptr<SentByTag> sent_ = std::make_unique<SentByTag>();
};

MpiRankMessages::~MpiRankMessages() {
  // Nobody receives the messages of a step that an error has ended: MPI may use their memory to the end of
  // the process.
  const auto is_empty = [](const auto& of_tag) { return of_tag.second.empty(); };
  if (!std::all_of(sent_->begin(), sent_->end(), is_empty)) static_cast<void>(sent_.release());
}

void MpiRankMessages::send(std::span<const at::Tensor> tensors, int to, int tag) {
  std::deque<Sent>& before = (*sent_)[tag];
  while (!before.empty() && is_taken(before.front())) before.pop_front();
  Sent& sent = before.emplace_back();
  sent.header = header_of(tensors);
  const bool posted = post(tensors, to, sent);
  const auto begin = [&](const void* data, std::size_t bytes) {
    MPI_Request& request = sent.requests.emplace_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(data, mpi_count(bytes), MPI_BYTE, to, tag, comm_.get(), &request), "MPI_Isend");
  };
  begin(sent.header.data(), sent.header.size() * sizeof(std::int64_t));
  if (posted) return;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    sent.tensors.push_back(tensor.detach().cpu().contiguous());
    const auto* const data = static_cast<const std::byte*>(sent.tensors.back().const_data_ptr());
    const std::size_t bytes = sent.tensors.back().nbytes();
    for (std::size_t at = 0; at < bytes; at += kMpiPiece) begin(data + at, bytes - at);
  }
}

bool MpiRankMessages::post(std::span<const at::Tensor> tensors, int to, Sent& sent) {
  const std::size_t bytes = Mailbox::bytes_of(tensors);
  if (mailbox_ == nullptr || bytes == 0 || !mailbox_->reaches(to)) return false;
  sent.letter = mailbox_->post(tensors, bytes);
  if (sent.letter.memory == nullptr) return false;
  sent.header.front() = in_mailbox;
  const auto numbers = std::bit_cast<PlaceNumbers>(sent.letter.place);
  sent.header.insert(sent.header.end(), numbers.begin(), numbers.end());
  return true;
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
  const bool by_letter = reader.next(by_mpi, mailbox_ ? in_mailbox : by_mpi) == in_mailbox;
  const std::vector<std::optional<HeaderReader::Kind>> kinds = reader.next_kinds();
  std::vector<at::Tensor> tensors(kinds.size());
  if (by_letter) {
    Mailbox::Letter letter = mailbox_->open(reader.next_place());
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (!kinds[i]) continue;
      tensors[i] = letter.next(kinds[i]->sizes, kinds[i]->dtype);
      // Whoever keeps a loss does not keep the gradients that came with it.
      if (tensors[i].nbytes() <= kSmall) tensors[i] = tensors[i].clone();
    }
    return tensors;
  }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (!kinds[i]) continue;
    at::Tensor& tensor = tensors[i];
    tensor = at::empty(kinds[i]->sizes, kinds[i]->dtype);
    auto* const data = static_cast<std::byte*>(tensor.mutable_data_ptr());
    for (std::size_t at = 0; at < tensor.nbytes(); at += kMpiPiece)
      receive_bytes(data + at, mpi_count(tensor.nbytes() - at), from, tag);
  }
  return tensors;
}

bool MpiRankMessages::is_taken(Sent& sent) {
  int done = 0;
  check_mpi(
      MPI_Testall(static_cast<int>(sent.requests.size()), sent.requests.data(), &done, MPI_STATUSES_IGNORE),
      "MPI_Testall");
  return done != 0 && (sent.letter.memory == nullptr || Mailbox::is_received(sent.letter));
}

void MpiRankMessages::wait_for(Sent& sent) const {
  comm_.call(
      kReceiver,
      [&](MPI_Comm) {
        return MPI_Waitall(static_cast<int>(sent.requests.size()), sent.requests.data(), MPI_STATUSES_IGNORE);
      },
      Watchdog::Wait::Of::some_ranks);
  if (sent.letter.memory == nullptr) return;
  const Watchdog::Wait wait(comm_.watchdog(), kReceiver, Watchdog::Wait::Of::some_ranks);
  Mailbox::wait_until_received(sent.letter);
}

void MpiRankMessages::wait_for_all_but(std::size_t count, int tag) {
  std::deque<Sent>& sent = (*sent_)[tag];
  for (; sent.size() > count; sent.pop_front()) wait_for(sent.front());
}

void MpiRankMessages::wait_for_all() {
  for (const auto& [tag, sent] : *sent_) wait_for_all_but(0, tag);
}

}  // namespace

std::unique_ptr<RankMessages> make_rank_messages(World& world) {
  auto* mpi = dynamic_cast<MpiWorld*>(&world);
  if (mpi == nullptr) throw CommunicationError("messages between ranks need MPI");
  return std::make_unique<MpiRankMessages>(mpi->comm().duplicate(),
                                           Mailbox::make(mpi->comm(), mpi->node_comm()));
}

}  // namespace cxtrain
