#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cxtrain/scaling/analysis.h"
#include "cxtrain/scaling/network_measurement.h"

namespace cxtrain {

/// The step of a size that was not measured. Times are in seconds.
struct SizeForecast {
  int ranks = 1;
  std::string refusal;  ///< why there is none; empty: there is one
  Estimate step;
  double samples_per_second = 0;
  Estimate efficiency;

  void fields(auto&& field) {
    field("ranks", ranks);
    field("refusal", refusal);
    field("step_seconds", step);
    field("samples_per_second", samples_per_second);
    field("efficiency", efficiency);
  }
};

struct Forecast {
  std::string model = {};    ///< the law in words, "a + b log2(ranks)"
  std::string network = {};  ///< the name of another network than the study's
  std::string source = {};   ///< of that network's numbers
  double own_error = 0;      ///< the largest error when each measured size is predicted from the others
  std::vector<SizeForecast> sizes;

  void fields(auto&& field) {
    field("model", model);
    field("network", network);
    field("network_source", source);
    field("own_error", own_error);
    field("sizes", sizes);
  }
};

/// Another network than the study's.
struct Network {
  std::string name = {}, source = {};  ///< empty: the file does not say it
  double bytes_per_second = 0;         ///< that a node sends, and receives, in sums over nodes
};

/// Returns the network of a file, by its speed or by the largest sum over several nodes. Throws ConfigError
/// if there is neither.
Network network_of(const NetworkTimes& times);

/// Predicts steps of larger sizes from a study.
///
/// If the study shows how long exchanges of gradients take, on two numbers of nodes at least, a step is the
/// usual work of a rank, the lateness of the slowest rank, and the time of the exchanges that backward does
/// not hide (`ExchangeModel`). The work is a sum of two terms: a term that is a constant in the mode `weak`
/// and `1/ranks` in `strong`, and a term for what ranks cost each other (`log2(ranks)`, `1 - 1/ranks`,
/// `ranks`; in `strong` also a constant). The lateness is a share of the work, which grows with `log2(ranks)`
/// if delays are rare, or with the expected largest of normal variates. Without exchanges the whole step is
/// a sum as the work is.
///
/// Coefficients are at least 0, and fitted by least squares of relative errors. The second term is the one
/// with the smallest error when each size is predicted from the others, and every term that the noise of the
/// study leaves as plausible (a size that was measured once is taken for 1 % uncertain). If contention
/// (`ranks`) is the only plausible term of whole steps, bytes that backward hides on the smallest size are
/// plausible, too. The prediction is the median over these terms, without contention if there are others, and
/// 2,000 draws of rounds. The interval has the quantiles of all, widened by that error (at least 1 %) times
/// the doublings beyond the largest size (at least 1).
///
/// `network`: of the predicted sizes; absent: the study's. The bytes of exchanges then take the time of that
/// network, for which the interval is 5 % wider.
///
/// Refuses another network if the study does not show exchanges. Refuses fewer than three sizes, more than 16
/// times the largest size, and a study that does not predict its own sizes within 10 %. Pure.
Forecast predict(const StudyResult& result, const std::vector<int>& ranks,
                 const std::optional<Network>& network = {});

}  // namespace cxtrain
