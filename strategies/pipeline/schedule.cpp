#include "schedule.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>

namespace cxtrain {
namespace {

/// The passes of one way on a stage. Micro-batches come in groups of as many as there are stages: a group
/// runs through one chunk after the other. The last group is filled up with micro-batches that do not exist.
std::vector<Pass> passes_of_way(Pass::Way way, const PipelineShape& shape) {
  std::vector<Pass> passes;
  for (std::int64_t group = 0; group < shape.micro_batches; group += shape.stages) {
    const std::int64_t end = group + shape.stages;
    for (int i = 0; i < shape.chunks; ++i) {
      const int chunk = way == Pass::Way::forward ? i : shape.chunks - 1 - i;
      for (std::int64_t micro_batch = group; micro_batch < end; ++micro_batch)
        passes.push_back({way, chunk, micro_batch});
    }
  }
  return passes;
}

/// Forward passes before the first backward pass.
std::size_t passes_to_warm_up(Schedule schedule, const PipelineShape& shape, int stage) {
  const int behind = shape.stages - 1 - stage;  // stages
  switch (schedule) {
    case Schedule::gpipe:
      return std::numeric_limits<std::size_t>::max();
    case Schedule::one_forward_one_backward:
    case Schedule::zero_bubble:
      return static_cast<std::size_t>(behind);
    case Schedule::interleaved:
      break;
  }
  const int ahead = 2 * behind + (shape.chunks - 1) * shape.stages;
  return static_cast<std::size_t>(ahead);
}

bool is_last_part(const Pass& pass, const PipelineShape& shape, int stage) {
  return stage == shape.stages - 1 && pass.chunk == shape.chunks - 1;
}

/// Inserts the passes for weights: `stage` micro-batches behind the backward passes, so that the first
/// gradients of inputs reach the stages before without delay.
std::vector<Pass> with_weights(const std::vector<Pass>& passes, const PipelineShape& shape, int stage) {
  std::vector<Pass> all;
  std::int64_t next = 0;  // micro-batch
  for (const Pass& pass : passes) {
    all.push_back(pass);
    if (pass.way == Pass::Way::backward && pass.micro_batch >= stage)
      all.push_back({Pass::Way::weights, pass.chunk, next++});
  }
  while (next < shape.micro_batches) all.push_back({Pass::Way::weights, 0, next++});
  return all;
}

/// Way, part and micro-batch.
using PartPass = std::tuple<Pass::Way, int, std::int64_t>;

/// Returns the passes that must have ended before this one begins.
std::vector<PartPass> needed_by(const PartPass& pass, int parts) {
  const auto [way, part, micro_batch] = pass;
  std::vector<PartPass> needed;
  if (way == Pass::Way::forward && part > 0) needed.emplace_back(way, part - 1, micro_batch);
  if (way == Pass::Way::backward) {
    needed.emplace_back(Pass::Way::forward, part, micro_batch);
    if (part + 1 < parts) needed.emplace_back(way, part + 1, micro_batch);
  }
  if (way == Pass::Way::weights) needed.emplace_back(Pass::Way::backward, part, micro_batch);
  return needed;
}

}  // namespace

std::vector<Pass> passes_of_stage(Schedule schedule, const PipelineShape& shape, int stage) {
  const std::vector<Pass> forward = passes_of_way(Pass::Way::forward, shape);
  std::vector<Pass> backward = passes_of_way(Pass::Way::backward, shape);
  std::erase_if(backward, [&](const Pass& pass) { return is_last_part(pass, shape, stage); });

  const std::size_t ahead = passes_to_warm_up(schedule, shape, stage);
  std::vector<Pass> passes;
  auto next = backward.begin();
  for (std::size_t i = 0; i < forward.size(); ++i) {
    passes.push_back(forward[i]);
    if (is_last_part(forward[i], shape, stage)) {
      passes.push_back({Pass::Way::backward, forward[i].chunk, forward[i].micro_batch});
    } else if (i >= ahead && next != backward.end()) {
      passes.push_back(*next++);
    }
  }
  passes.insert(passes.end(), next, backward.end());
  // A schedule in which no stage waits for ever has this property without some of its micro-batches, too.
  std::erase_if(passes, [&](const Pass& pass) { return pass.micro_batch >= shape.micro_batches; });
  return schedule == Schedule::zero_bubble ? with_weights(passes, shape, stage) : passes;
}

std::optional<SimulatedStep> simulate(Schedule schedule, const PipelineShape& shape, const PassTimes& times) {
  const bool splits = schedule == Schedule::zero_bubble;
  const std::array<double, 3> seconds{times.forward, times.backward + (splits ? 0 : times.weights),
                                      times.weights};  // by way
  struct Lane {                                        ///< of a stage
    std::vector<Pass> passes;
    std::size_t done = 0;
    double free = 0;  ///< when the stage has ended its last pass
  };
  std::vector<Lane> lanes;
  for (int s = 0; s < shape.stages; ++s) lanes.push_back({passes_of_stage(schedule, shape, s)});
  const int parts = shape.stages * shape.chunks;
  std::map<PartPass, double> ends;

  SimulatedStep step;
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (int s = 0; s < shape.stages; ++s) {
      Lane& lane = lanes[static_cast<std::size_t>(s)];
      for (; lane.done < lane.passes.size(); ++lane.done) {
        const Pass& pass = lane.passes[lane.done];
        const int part = pass.chunk * shape.stages + s;
        double begin = lane.free;
        bool is_ready = true;
        for (const PartPass& needed : needed_by({pass.way, part, pass.micro_batch}, parts)) {
          const auto end = ends.find(needed);
          is_ready = is_ready && end != ends.end();
          if (is_ready) begin = std::max(begin, end->second);
        }
        if (!is_ready) break;
        lane.free = begin + seconds[static_cast<std::size_t>(pass.way)];
        ends[{pass.way, part, pass.micro_batch}] = lane.free;
        step.entries.push_back({s, pass, begin, lane.free});
        goes_on = true;
      }
    }
  }
  for (const Lane& lane : lanes) {
    if (lane.done < lane.passes.size()) return std::nullopt;
    step.seconds = std::max(step.seconds, lane.free);
  }
  const double work = static_cast<double>(shape.micro_batches * shape.chunks) *
                      (times.forward + times.backward + times.weights);
  step.bubble = step.seconds > 0 ? 1 - work / step.seconds : 0;
  return step;
}

std::string draw(const SimulatedStep& step, const PipelineShape& shape, std::size_t columns) {
  std::vector<std::vector<std::string>> cells(
      static_cast<std::size_t>(shape.stages),
      std::vector<std::string>(static_cast<std::size_t>(step.seconds)));
  std::size_t width = 0;
  for (const SimulatedStep::Entry& entry : step.entries) {
    std::string text =
        std::string(1, "FBW"[static_cast<int>(entry.pass.way)]) + std::to_string(entry.pass.micro_batch);
    if (shape.chunks > 1) text += static_cast<char>('a' + entry.pass.chunk % 26);
    width = std::max(width, text.size());
    for (auto unit = static_cast<std::size_t>(entry.begin); unit < static_cast<std::size_t>(entry.end);
         ++unit)
      cells[static_cast<std::size_t>(entry.stage)][unit] = text;
  }
  std::string drawing;
  for (std::size_t stage = 0; stage < cells.size(); ++stage) {
    std::string line = "stage " + std::to_string(stage) + " ";
    for (std::string& cell : cells[stage]) {
      if (cell.empty()) cell = ".";
      line += ' ' + cell + std::string(width - cell.size(), ' ');
    }
    line.resize(line.find_last_not_of(" .") + 1);
    constexpr std::string_view kMore = " ...";
    if (line.size() > columns && columns > kMore.size()) {
      line.resize(line.rfind(' ', columns - kMore.size()));
      line.resize(line.find_last_not_of(' ') + 1);
      line += kMore;
    }
    drawing += line + '\n';
  }
  return drawing;
}

}  // namespace cxtrain
