#pragma once

#include <cstdint>

#include "cxtrain/trainer/session.h"
#include "cxtrain/trainer/tuning.h"

/// Lightning's Tuner: each function tries something out before training, in an open session, and leaves the
/// model as it was. The functions are collective.
namespace cxtrain {

/// Writes what the options ask for (`auto_scale_batch_size`, `auto_lr_find`) into the run's `tuned`.
void tune(Session& session);

/// The curve is written to lr_find.csv in the run's folder.
LrFinderResult lr_find(Session& session, const LrSweep& sweep);
/// Returns the batch size per rank.
std::int64_t scale_batch_size(Session& session, const BatchSizeSearch& search);

}  // namespace cxtrain
