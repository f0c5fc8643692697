#pragma once

#include <cstdint>
#include <exception>

#include "cxtrain/trainer/optimization.h"
#include "cxtrain/trainer/train_context.h"
#include "cxtrain/trainer/tuning.h"

namespace cxtrain {

/// The largest batch size per rank, up to `most`, whose forward and backward passes fit into the memory of
/// every rank: a trial counts only if all ranks succeed, and ranks exchange nothing during one, so that none
/// waits for another that gave up. On the CPU, where running out of memory would end the process, a trial
/// that the last one's growth says will not fit is not made. Puts the model back. Throws ConfigError when not
/// even the initial size fits. Collective.
std::int64_t find_batch_size(TrainContext& context, Optimization& optimization, const Loaders& loaders,
                             std::int64_t most, const BatchSizeSearch& search);

/// Whether the error says that memory is used up, on a GPU or on the host.
bool is_out_of_memory(const std::exception& error);

}  // namespace cxtrain
