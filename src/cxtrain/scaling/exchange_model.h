#pragma once

#include <span>

namespace cxtrain {

/// A training over several nodes: times of a step, in seconds.
struct ExchangePoint {
  double nodes = 2;
  double backward = 0;   ///< of a rank
  double exchanges = 0;  ///< of the gradients, alone
  double exposed = 0;    ///< how long ranks wait for exchanges after their work
};

/// Returns how much of `exchanges` backward does not hide, all in seconds. `tail`: the share of the exchanges
/// that begins when backward has ended; 1: all of them.
double exposed_exchanges(double exchanges, double backward, double tail);

/// How long exchanges take on any number of nodes, and how much of this time backward does not hide.
///
/// Exchanges take W = b (1 - 1/nodes) + m (nodes - 1): the bytes that a node sends in exchanges that are
/// divided among the nodes, and its messages. Backward hides them except for a share `tail`, the last bucket,
/// which is complete when backward ends; and backward hides no more than the share 1 - `tail` of its own
/// time, because the first bucket has to be complete:
///
///     exposed = max(tail W, W - (1 - tail) backward)
///
/// Without overlap `tail` is 1.
class ExchangeModel {
 public:
  /// `with_messages`: fits m, too; else m is 0. `points`: at least one.
  void fit(std::span<const ExchangePoint> points, bool with_messages);

  /// Replaces the network: a node with `bytes` of gradients then sends, and receives, `bytes_per_second`. The
  /// time of a message stays.
  void move_to(double bytes, double bytes_per_second) { bytes_ = 2 * bytes / bytes_per_second; }

  double exposed(double nodes, double backward) const {
    return exposed_exchanges(bytes_ * (1 - 1 / nodes) + messages_ * (nodes - 1), backward, tail_);
  }

 private:
  double bytes_ = 0, messages_ = 0, tail_ = 1;
};

}  // namespace cxtrain
