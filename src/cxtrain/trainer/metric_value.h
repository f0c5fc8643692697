#pragma once

#include <ATen/core/Tensor.h>

#include "cxtrain/state/state_dict.h"
#include "cxtrain/strategy/metric_sink.h"

namespace cxtrain {

/// The last value of a metric, from the host or a tensor that may still be on its way from a device.
class MetricScalar {
 public:
  void set(double value);
  void set(const at::Tensor& value);
  double read() const;

  void save(StateDict& state) const;
  void load(const StateDict& state);

 private:
  double host_ = 0;
  at::Tensor device_;  ///< undefined when `host_` holds the value
};

/// The values of a metric over an epoch, from both: a weighted sum for a mean, else a sum, minimum or
/// maximum.
struct MetricAccumulator {
  double host = 0;
  at::Tensor device;     ///< float64; undefined as long as no value came from a device
  bool on_host = false;  ///< whether `host` holds any value
  double weight = 0;

  void add(ReduceFx fx, double value, double samples);
  void add(ReduceFx fx, const at::Tensor& value, double samples);
  double read(ReduceFx fx) const;

  void save(StateDict& state) const;
  void load(const StateDict& state);
};

}  // namespace cxtrain
