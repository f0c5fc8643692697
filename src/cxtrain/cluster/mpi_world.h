#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cxtrain/cluster/hang_reporter.h"
#include "cxtrain/cluster/mpi_comm.h"
#include "cxtrain/cluster/watchdog.h"
#include "cxtrain/cluster/world.h"

namespace cxtrain {

/// The ranks of one MPI job: a duplicate of MPI_COMM_WORLD and one communicator per node.
class MpiWorld final : public World {
 public:
  /// Starts MPI (ended again with the world) and collects the facts. Every rank calls it at the same time;
  /// where one does not come within `timeout_seconds`, the others end the job and name it.
  static std::unique_ptr<MpiWorld> start(double timeout_seconds = kDefaultTimeout);
  ~MpiWorld() override;

  void barrier() override;
  std::int64_t max(std::int64_t value) override;
  std::uint64_t any(std::uint64_t flags) override;
  void begin_any(std::uint64_t flags) override;
  std::uint64_t end_any() override;
  void sum(std::span<double> values) override;
  std::vector<std::string> all_gather(std::string_view text) override;
  std::vector<std::string> gather_root(std::string_view text) override;
  std::vector<std::string> gather_node(std::string_view text) override;
  std::string broadcast(std::string text, int root) override;
  void set_timeout(double seconds, std::function<std::string()> where) override;
  void abort(int status) noexcept override;
  Watchdog& watchdog() override { return connection_->watchdog; }

  const MpiComm& comm() const noexcept { return connection_->comm; }
  const MpiComm& node_comm() const noexcept { return connection_->node_comm; }

 private:
  struct Connection {
    explicit Connection(double timeout_seconds);
    HangReporter hang_reporter;
    Watchdog watchdog;
    MpiSession session;  // outlives the communicators
    MpiComm comm;
    MpiComm node_comm;
  };
  MpiWorld(WorldFacts facts, std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
  std::uint64_t begun_ = 0;  ///< of `begin_any`: MPI reads and writes it until `end_any`
  MPI_Request agreement_ = MPI_REQUEST_NULL;
};

}  // namespace cxtrain
