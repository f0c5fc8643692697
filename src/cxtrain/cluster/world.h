#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/cluster/launch_environment.h"
#include "cxtrain/cluster/watchdog.h"

/// Ranks, nodes, and the control messages between them.
///
/// A `World` is made once, at start-up, and never changes. Its collectives carry small control data (status
/// flags, names, configuration); gradients travel through `Communicator`. Every rank calls every collective,
/// in the same order, from the thread that made the world.
namespace cxtrain {

/// Facts about this rank and its world.
struct WorldFacts {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< position among the ranks of this node
  int local_size = 1;  ///< ranks on this node
  int node = 0;        ///< nodes are numbered by their lowest world rank
  int num_nodes = 1;
  int max_local_size = 1;  ///< the largest local_size of any node
  std::string hostname;
  std::vector<std::string> node_names;  ///< the host of each node; empty: one node
  LaunchedBy launched_by = LaunchedBy::alone;
  /// The node of each world rank; empty: ranks fill the nodes in blocks of max_local_size.
  std::vector<int> rank_nodes;
};

/// Work of a process that ends because other ranks or a device do not answer. The work runs on another
/// thread, while the thread that made the world is blocked in a collective.
struct ProcessEnd {
  /// Saves data that must not be lost. It is called, with the expected exit status, before the process ends
  /// because other ranks are missing. It is also called after SIGTERM, because the process may not live to
  /// the end of its wait.
  std::function<void(int status)> rescue = [](int /*status*/) {};
  /// Is called last, when the process ends with `status`.
  std::function<void(int status)> report = [](int /*status*/) {};
};

class World {
 public:
  virtual ~World() = default;

  const WorldFacts& facts() const noexcept { return facts_; }
  int rank() const noexcept { return facts_.rank; }
  int size() const noexcept { return facts_.size; }
  bool is_root() const noexcept { return facts_.rank == 0; }

  virtual void barrier() = 0;
  /// Returns the largest value of all ranks.
  virtual std::int64_t max(std::int64_t value) = 0;
  /// Returns the bitwise OR of all ranks' flags.
  virtual std::uint64_t any(std::uint64_t flags) = 0;
  /// Returns whether any rank passes true.
  bool any_rank(bool own) { return any(own ? 1 : 0) != 0; }
  /// `any` in two halves, so that a rank need not wait while its flags travel. Any work may run between the
  /// halves, except another `begin_any`. Both halves are collective, in the same order on all ranks.
  virtual void begin_any(std::uint64_t flags) = 0;
  virtual std::uint64_t end_any() = 0;
  /// Sums the values element-wise over all ranks, in place; every rank passes an equal length.
  virtual void sum(std::span<double> values) = 0;
  /// Returns every rank's text, in rank order. The result grows with the ranks: use it for data that every
  /// rank needs about every other rank.
  virtual std::vector<std::string> all_gather(std::string_view text) = 0;
  /// Returns every rank's text, in rank order, on the root; returns nothing on all other ranks.
  virtual std::vector<std::string> gather_root(std::string_view text) = 0;
  /// Returns the texts of this node's ranks, in their order.
  virtual std::vector<std::string> gather_node(std::string_view text) = 0;
  /// Returns the text of each node's first rank; ignores the texts of all other ranks.
  std::vector<std::string> gather_nodes(std::string_view text);
  /// Returns the root's text on every rank.
  virtual std::string broadcast(std::string text, int root = 0) = 0;
  /// Sets the time limit of a collective from now on, in seconds. A collective that exceeds it ends the
  /// process, with an error that contains the result of `where`.
  virtual void set_timeout(double seconds, std::function<std::string()> where) = 0;
  /// Ends the whole job with this status. Does not return if there are other ranks.
  virtual void abort(int status) noexcept = 0;
  /// The watchdog of waits for other ranks, and for devices that work with other ranks' devices. It ends the
  /// process when a wait lasts longer than the timeout.
  virtual Watchdog& watchdog() = 0;

  /// The work before an end of this process. Set the work between collectives.
  ProcessEnd& process_end() noexcept { return process_end_; }
  const ProcessEnd& process_end() const noexcept { return process_end_; }

 protected:
  explicit World(WorldFacts facts) : facts_(std::move(facts)) {}

 private:
  WorldFacts facts_;
  ProcessEnd process_end_;
};

/// Default of --timeout_seconds, in seconds.
inline constexpr double kDefaultTimeout = 1800;

/// Makes the world that this process was started in: MPI's if a launcher started the process, else a world of
/// one rank that does not start MPI at all. A rank that does not join within `timeout_seconds` ends the job.
/// Throws CommunicationError, for example if Slurm started N tasks as N worlds of one rank.
std::unique_ptr<World> make_world(double timeout_seconds = kDefaultTimeout);

/// An error that every rank has: it is reported once, and every rank ends by itself with its status.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// Runs `work` on every rank and compares the outcome. `work` must not communicate with other ranks. If it
/// throws on any rank, all ranks throw one AgreedError with the message of the first rank that failed. The
/// message names that rank unless all ranks failed alike. Collective.
void run_agreed(World& world, const std::function<void()>& work);

/// Returns whether every rank passes an equal text. Each rank sends 16 bytes, for any length. Collective.
bool same_on_all_ranks(World& world, std::string_view text);

/// A world of one rank that never starts MPI: to start MPI as a singleton costs more than a first training
/// step.
class SoloWorld final : public World {
 public:
  SoloWorld();
  void barrier() override {}
  std::int64_t max(std::int64_t value) override { return value; }
  std::uint64_t any(std::uint64_t flags) override { return flags; }
  void begin_any(std::uint64_t flags) override { begun_ = flags; }
  std::uint64_t end_any() override { return begun_; }
  void sum(std::span<double>) override {}
  std::vector<std::string> all_gather(std::string_view text) override { return {std::string(text)}; }
  std::vector<std::string> gather_root(std::string_view text) override { return {std::string(text)}; }
  std::vector<std::string> gather_node(std::string_view text) override { return {std::string(text)}; }
  std::string broadcast(std::string text, int) override { return text; }
  void set_timeout(double seconds, std::function<std::string()> where) override;
  void abort(int) noexcept override {}
  /// The watchdog of this process's devices; started by the first call.
  Watchdog& watchdog() override;

 private:
  [[noreturn]] void end(Watchdog::Cause cause, const char* operation, double seconds);

  std::uint64_t begun_ = 0;  ///< the flags of `begin_any`
  double timeout_seconds_ = kDefaultTimeout;
  std::function<std::string()> where_;
  std::optional<Watchdog> watchdog_;
};

}  // namespace cxtrain
