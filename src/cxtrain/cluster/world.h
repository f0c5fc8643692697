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

/// Who takes part: ranks, nodes, and the control messages between them.
///
/// A `World` is made once, at start-up, and never changes. Its collectives carry small control data
/// (agreements, names, configuration); gradients travel through `Communicator`. Every collective is
/// called by every rank, in the same order, from the thread that made the world.
namespace cxtrain {

/// Plain facts about this rank and its world.
struct WorldFacts {
  int rank = 0;
  int size = 1;
  int local_rank = 0;  ///< position among the ranks of this node
  int local_size = 1;  ///< ranks on this node
  int node = 0;        ///< nodes are numbered by their lowest world rank
  int num_nodes = 1;
  int max_local_size = 1;  ///< the largest local_size of any node
  std::string hostname;
  std::vector<std::string> node_names;  ///< the host of each node; empty: there is one
  LaunchedBy launched_by = LaunchedBy::alone;
  /// The node of each world rank; empty: ranks fill the nodes in blocks of max_local_size.
  std::vector<int> rank_nodes;
};

class World {
 public:
  virtual ~World() = default;

  const WorldFacts& facts() const noexcept { return facts_; }
  int rank() const noexcept { return facts_.rank; }
  int size() const noexcept { return facts_.size; }
  bool is_root() const noexcept { return facts_.rank == 0; }

  virtual void barrier() = 0;
  /// The largest of all ranks' values.
  virtual std::int64_t max(std::int64_t value) = 0;
  /// The flags (bits) that any rank has set.
  virtual std::uint64_t any(std::uint64_t flags) = 0;
  /// `any` in two halves, so that a rank need not wait while its flags travel: what it does between them may
  /// be anything but another `begin_any`. Both are collective, in the same order on all ranks.
  virtual void begin_any(std::uint64_t flags) = 0;
  virtual std::uint64_t end_any() = 0;
  /// Element-wise sums over all ranks, in place; every rank passes the same length.
  virtual void sum(std::span<double> values) = 0;
  /// Every rank's text, in rank order. Grows with the ranks: for what each of them must know of each other.
  virtual std::vector<std::string> all_gather(std::string_view text) = 0;
  /// The same at the root, which alone gets it; the others get nothing.
  virtual std::vector<std::string> gather_root(std::string_view text) = 0;
  /// The texts of this node's ranks, in their order.
  virtual std::vector<std::string> gather_node(std::string_view text) = 0;
  /// The text of each node's first rank; what the others pass is not looked at.
  std::vector<std::string> gather_nodes(std::string_view text);
  /// The root's text, on every rank.
  virtual std::string broadcast(std::string text, int root = 0) = 0;
  /// How long a collective may take from now on before the process ends with an error that says `where` it
  /// was.
  virtual void set_timeout(double seconds, std::function<std::string()> where) = 0;
  /// Ends the whole job with this status. Does not return where other ranks exist.
  virtual void abort(int status) noexcept = 0;
  /// Guards waits for other ranks, and for devices that work with other ranks' devices: the process ends by
  /// it when one lasts for longer than the timeout.
  virtual Watchdog& watchdog() = 0;

  // For a rank that waits for others in vain. Set both between collectives. Another thread than the one that
  // made the world calls them, while that one stands still inside a collective.

  /// `work` writes what must not be lost. It is called, with the exit status to expect, before the process
  /// ends for want of other ranks, and after SIGTERM, as it may not live to the end of its wait.
  void set_last_words(std::function<void(int status)> work) { last_words_ = std::move(work); }
  /// `work` is called last, when the process does end with `status`.
  void set_end_report(std::function<void(int status)> work) { end_report_ = std::move(work); }
  void say_last_words(int status) const {
    if (last_words_) last_words_(status);
  }
  void report_end(int status) const {
    if (end_report_) end_report_(status);
  }

 protected:
  explicit World(WorldFacts facts) : facts_(std::move(facts)) {}

 private:
  WorldFacts facts_;
  std::function<void(int)> last_words_, end_report_;
};

/// The --timeout_seconds of a job that was not told one.
inline constexpr double kDefaultTimeout = 1800;

/// The world that this process was started in: MPI's when a launcher started it, else a world of one that
/// does not start MPI at all. A rank that does not come to it within `timeout_seconds` ends the job. Throws
/// CommunicationError, among others when Slurm started N tasks as N worlds of one.
std::unique_ptr<World> make_world(double timeout_seconds = kDefaultTimeout);

/// An error that every rank has: it is reported once, and the ranks end by themselves with its status.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// Runs `work`, which talks to no other rank, on every rank, and compares the outcome: where it threw an
/// Error on any, all throw one AgreedError with the message (naming the ranks where not all have it).
/// Collective.
void run_agreed(World& world, const std::function<void()>& work);

/// Whether every rank passes the same text; 16 bytes of each rank travel, however long it is. Collective.
bool same_on_all_ranks(World& world, std::string_view text);

/// A world of one that never starts MPI: starting it as a singleton costs more than a first training step.
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
  /// Of the devices of this process; started when it is first asked for.
  Watchdog& watchdog() override;

 private:
  [[noreturn]] void end(Watchdog::Cause cause, const char* operation, double seconds);

  std::uint64_t begun_ = 0;  ///< the flags of `begin_any`
  double timeout_seconds_ = kDefaultTimeout;
  std::function<std::string()> where_;
  std::optional<Watchdog> watchdog_;
};

}  // namespace cxtrain
