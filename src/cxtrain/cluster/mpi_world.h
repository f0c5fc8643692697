#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "cxtrain/cluster/watchdog.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// Starts MPI and ends it: one of these, made first and destroyed last.
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// Throws CommunicationError naming the call when `status` is not MPI_SUCCESS.
void check_mpi(int status, const char* call);

/// Whether `here` holds on all ranks of `comm`. Collective.
bool on_all_ranks(bool here, MPI_Comm comm);

/// An owned communicator handle.
class MpiComm {
 public:
  explicit MpiComm(MPI_Comm comm = MPI_COMM_NULL) : comm_(comm) {}
  ~MpiComm();
  MpiComm(MpiComm&& other) noexcept : comm_(other.comm_) { other.comm_ = MPI_COMM_NULL; }
  MpiComm& operator=(MpiComm&& other) noexcept;
  static MpiComm duplicate(MPI_Comm comm);

  MPI_Comm get() const noexcept { return comm_; }

 private:
  MPI_Comm comm_;
};

/// The ranks of one MPI job: a duplicate of MPI_COMM_WORLD and one communicator per node.
class MpiWorld final : public World {
 public:
  /// Starts MPI (ended again with the world) and collects the facts. Every rank calls it at the same time.
  static std::unique_ptr<MpiWorld> start();

  void barrier() override;
  std::int64_t max(std::int64_t value) override;
  void sum(std::span<double> values) override;
  std::vector<std::string> all_gather(std::string_view text) override;
  std::string broadcast(std::string text, int root) override;
  void set_timeout(double seconds, std::function<std::string()> where) override;
  void abort(int status) noexcept override;

  /// Guards blocking MPI calls of others on this world's ranks.
  Watchdog& watchdog() noexcept { return watchdog_; }

  MPI_Comm comm() const noexcept { return comm_.get(); }
  MPI_Comm node_comm() const noexcept { return node_comm_.get(); }

 private:
  MpiWorld(std::unique_ptr<MpiSession> session, MpiComm comm, MpiComm node_comm);

  [[noreturn]] void give_up(const char* operation, double seconds) const;

  std::unique_ptr<MpiSession> session_;  // outlives the communicators
  MpiComm comm_;
  MpiComm node_comm_;
  std::function<std::string()> where_;
  Watchdog watchdog_;
};

}  // namespace cxtrain
