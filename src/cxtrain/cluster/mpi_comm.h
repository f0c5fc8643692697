#pragma once

#include <mpi.h>

#include <exception>

#include "cxtrain/cluster/watchdog.h"

namespace cxtrain {

/// Starts MPI and ends it: one of these, made first and destroyed last.
class MpiSession {
 public:
  /// The watchdog, which outlives it, guards the start and the end.
  explicit MpiSession(Watchdog& watchdog);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  Watchdog& watchdog_;
};

/// Throws CommunicationError naming the call when `status` is not MPI_SUCCESS.
void check_mpi(int status, const char* call);

/// An owned communicator, and the only way to an MPI call that waits for other ranks: `call` and what stands
/// on it. So every wait has the watchdog's deadline and a name.
class MpiComm {
 public:
  MpiComm() = default;  ///< none
  /// Owns `comm`, which may be MPI_COMM_NULL. The watchdog outlives it.
  MpiComm(MPI_Comm comm, Watchdog& watchdog);
  /// Collective, except on the way out of an error: then the communicator is left to the end of MPI.
  ~MpiComm();
  MpiComm(MpiComm&& other) noexcept;
  MpiComm& operator=(MpiComm&& other) noexcept;

  /// A duplicate of `comm` (MPI_COMM_WORLD). Collective.
  static MpiComm duplicate_of(MPI_Comm comm, Watchdog& watchdog);
  // Collective, all of them.
  MpiComm duplicate() const { return duplicate_of(comm_, *watchdog_); }
  MpiComm split_by_node() const;
  MpiComm split(int color, int key) const;

  int rank() const;
  int size() const;
  /// For calls that wait for nobody.
  MPI_Comm get() const noexcept { return comm_; }
  Watchdog& watchdog() const noexcept { return *watchdog_; }

  /// Makes one MPI call that waits for other ranks: `function(comm)` returns its status. Throws
  /// CommunicationError naming `operation` (a literal) where it is an error; the job ends where the others do
  /// not come. `of`: who makes such calls.
  template <class Function>
  void call(const char* operation, Function&& function,
            Watchdog::Wait::Of of = Watchdog::Wait::Of::all_ranks) const {
    const Watchdog::Wait wait(*watchdog_, operation, of);
    check_mpi(function(comm_), operation);
  }

  /// Whether `here` holds on all ranks. Collective.
  bool on_all_ranks(const char* operation, bool here) const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  Watchdog* watchdog_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();  ///< under way when it was made
};

}  // namespace cxtrain
