#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Schedules of a pipeline: which pass a stage runs when. Pure.
namespace cxtrain {

enum class Schedule : std::uint8_t {
  gpipe,                     ///< all forward passes, then all backward passes (Huang et al. 2019)
  one_forward_one_backward,  ///< a backward pass as soon as there is one (PipeDream-Flush, Narayanan et al.
                             ///< 2021)
  interleaved,  ///< a rank has several parts of the model, p parts apart (Megatron-LM, Narayanan et al. 2021)
  zero_bubble,  ///< 1f1b whose gradients of parameters fill the waits (ZB-H1, Qi et al. 2023)
};

/// One pass of one part of the model. Chunk c of stage s is part c * stages + s of the model.
struct Pass {
  enum class Way : std::uint8_t {
    forward,
    backward,  ///< with `zero_bubble` for the gradients of the part's inputs only
    weights,   ///< backward for the gradients of the part's parameters; `zero_bubble` alone has such passes
  };
  Way way;
  int chunk;
  std::int64_t micro_batch;

  bool operator==(const Pass&) const = default;
};

struct PipelineShape {
  int stages = 1;
  int chunks = 1;  ///< parts of the model on each stage; 1 unless interleaved
  std::int64_t micro_batches = 1;
};

/// Returns the passes of a stage in their order. Each stage has one pass of each way for each chunk and
/// micro-batch. Passes of one way of a chunk come in the order of the micro-batches, so that gradients are
/// summed as by one process. On the stage with the last part of the model, the backward pass of that part
/// follows its forward pass at once.
std::vector<Pass> passes_of_stage(Schedule schedule, const PipelineShape& shape, int stage);

/// What the passes of a chunk take, in any unit. A backward pass of a schedule without passes for weights
/// takes `backward + weights`.
struct PassTimes {
  double forward = 1, backward = 1, weights = 1;
};

/// The times of a step.
struct SimulatedStep {
  /// One pass, on one stage.
  struct Entry {
    int stage;
    Pass pass;
    double begin, end;
  };
  std::vector<Entry> entries;
  double seconds = 0;  ///< the end of the last pass
  double bubble = 0;   ///< part of the time in which stages do nothing: 0 to 1
};

/// Simulates the schedule, with messages that take no time. Returns nothing if stages wait for each other
/// for ever.
std::optional<SimulatedStep> simulate(Schedule schedule, const PipelineShape& shape,
                                      const PassTimes& times = {});

/// Draws a simulated step: a line for each stage, a column for each unit of time. A line
/// has at most `columns` characters; the rest of a long step is left out.
///
///     stage 0  F0 F1 .  .  B0 B0 .  B1 B1
///     stage 1  .  F0 B0 B0 F1 B1 B1
std::string draw(const SimulatedStep& step, const PipelineShape& shape, std::size_t columns);

}  // namespace cxtrain
