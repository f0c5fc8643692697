#include "strategies/pipeline/schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "cxtrain/strategy/block_ranges.h"
#include "strategies/pipeline/stage_model.h"
#include "support/catch.h"

namespace cxtrain {
namespace {

constexpr Schedule kSchedules[]{Schedule::gpipe, Schedule::one_forward_one_backward, Schedule::interleaved,
                                Schedule::zero_bubble};

/// Every shape of up to 8 stages and 16 micro-batches.
template <class Check>
void for_each_shape(const Check& check) {
  for (const Schedule schedule : kSchedules) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int chunks = 1; chunks <= (schedule == Schedule::interleaved ? 3 : 1); ++chunks) {
        for (std::int64_t micro_batches = 1; micro_batches <= 16; ++micro_batches)
          check(schedule, PipelineShape{stages, chunks, micro_batches});
      }
    }
  }
}

/// The most forward passes whose last backward pass is still to come.
std::int64_t most_kept(const std::vector<Pass>& passes) {
  const Pass::Way last = passes.back().way;
  std::int64_t kept = 0, most = 0;
  for (const Pass& pass : passes) {
    kept += pass.way == Pass::Way::forward ? 1 : (pass.way == last ? -1 : 0);
    most = std::max(most, kept);
  }
  return most;
}

std::string text_of(const std::vector<Pass>& passes) {
  std::string text;
  for (const Pass& pass : passes)
    text += std::string(1, "FBW"[static_cast<int>(pass.way)]) + std::to_string(pass.micro_batch) + " ";
  return text;
}

TEST_CASE("a schedule has every pass once, and no stages wait for each other for ever", "[pipeline]") {
  for_each_shape([](Schedule schedule, const PipelineShape& shape) {
    CAPTURE(static_cast<int>(schedule), shape.stages, shape.chunks, shape.micro_batches);
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::map<std::pair<Pass::Way, int>, std::int64_t> next;  // micro-batch
      const std::vector<Pass> passes = passes_of_stage(schedule, shape, stage);
      // Gradients are summed in the order of one process.
      for (const Pass& pass : passes) CHECK(pass.micro_batch == next[{pass.way, pass.chunk}]++);
      const int ways = schedule == Schedule::zero_bubble ? 3 : 2;
      CHECK(static_cast<int>(next.size()) == ways * shape.chunks);
      CHECK(static_cast<std::int64_t>(passes.size()) == ways * shape.chunks * shape.micro_batches);
    }
    CHECK(simulate(schedule, shape).has_value());
  });
}

TEST_CASE("the bubble of a schedule is that of its formula", "[pipeline]") {
  for (const std::int64_t micro_batches : {4, 8, 16}) {
    for (const int stages : {2, 4}) {
      const double idle = stages - 1, m = static_cast<double>(micro_batches);
      for (const Schedule schedule : {Schedule::gpipe, Schedule::one_forward_one_backward}) {
        const auto step = simulate(schedule, {stages, 1, micro_batches});
        CHECK(step->seconds == Approx(3 * (m + idle)));
        CHECK(step->bubble == Approx(idle / (m + idle)));
      }
      for (const int chunks : {2, 3}) {
        const auto step = simulate(Schedule::interleaved, {stages, chunks, micro_batches});
        CHECK(step->bubble == Approx(idle / (chunks * m + idle)));
      }
      const auto step = simulate(Schedule::zero_bubble, {stages, 1, micro_batches});
      CHECK(step->bubble == Approx(idle / (3 * m + idle)));
      // Passes that take different times: (p - 1)(F + B - W), as long as W is the shortest.
      const auto uneven = simulate(Schedule::zero_bubble, {stages, 1, micro_batches}, {4, 5, 3});
      CHECK(uneven->seconds <= 12 * m + idle * (4 + 5 + 3));
    }
  }
}

TEST_CASE("1f1b and zb1p keep activations of as many micro-batches as there are stages, gpipe of all",
          "[pipeline]") {
  for (int stage = 0; stage < 4; ++stage) {
    const PipelineShape shape{4, 1, 9};
    CHECK(most_kept(passes_of_stage(Schedule::one_forward_one_backward, shape, stage)) == 4 - stage);
    CHECK(most_kept(passes_of_stage(Schedule::gpipe, shape, stage)) == (stage == 3 ? 1 : 9));
    CHECK(most_kept(passes_of_stage(Schedule::zero_bubble, shape, stage)) == 4);
  }
}

/// A step of 1f1b whose backward passes take twice as long as the forward passes.
std::string drawing(const PipelineShape& shape, std::size_t columns) {
  return draw(simulate(Schedule::one_forward_one_backward, shape).value(), shape, columns);
}

TEST_CASE("schedules as the papers draw them", "[pipeline]") {
  const PipelineShape shape{2, 1, 3};
  CHECK(text_of(passes_of_stage(Schedule::one_forward_one_backward, shape, 0)) == "F0 F1 B0 F2 B1 B2 ");
  CHECK(text_of(passes_of_stage(Schedule::one_forward_one_backward, shape, 1)) == "F0 B0 F1 B1 F2 B2 ");
  CHECK(text_of(passes_of_stage(Schedule::gpipe, shape, 0)) == "F0 F1 F2 B0 B1 B2 ");
  CHECK(text_of(passes_of_stage(Schedule::zero_bubble, shape, 0)) == "F0 F1 B0 W0 F2 B1 W1 B2 W2 ");
  CHECK(text_of(passes_of_stage(Schedule::zero_bubble, shape, 1)) == "F0 B0 F1 B1 W0 F2 B2 W1 W2 ");
  CHECK(drawing({2, 1, 2}, 80) ==
        "stage 0  F0 F1 .  .  B0 B0 .  B1 B1\n"
        "stage 1  .  F0 B0 B0 F1 B1 B1\n");
  CHECK(drawing({2, 1, 100}, 31) ==
        "stage 0  F0  F1  .   .   B0 ...\n"
        "stage 1  .   F0  B0  B0  F1 ...\n");
}

TEST_CASE("blocks are cut so that the most expensive part is as cheap as can be", "[pipeline]") {
  // Every way to put the ends of the parts.
  const std::vector<double> costs{5, 1, 1, 9, 2, 2, 2, 7};
  for (std::size_t parts = 1; parts <= costs.size(); ++parts) {
    double best = 1e9;
    for (unsigned ends = 0; ends < 1U << (costs.size() - 1); ++ends) {
      double most = 0, sum = 0;
      std::size_t count = 1;
      for (std::size_t i = 0; i < costs.size(); ++i) {
        most = std::max(most, sum += costs[i]);
        if (i + 1 < costs.size() && (ends >> i & 1U) != 0) {
          sum = 0;
          ++count;
        }
      }
      if (count == parts) best = std::min(best, most);
    }
    const std::vector<BlockRange> ranges = cut_by_cost(costs, parts);
    REQUIRE(ranges.size() == parts);
    double most = 0;
    std::size_t next = 0;
    for (const BlockRange& range : ranges) {
      CHECK(range.begin == next);
      CHECK(range.end > range.begin);
      next = range.end;
      double sum = 0;
      for (std::size_t i = range.begin; i < range.end; ++i) sum += costs[i];
      most = std::max(most, sum);
    }
    CHECK(next == costs.size());
    CHECK(most == best);
  }
  const bool cut_as_told =
      cut_by_sizes(std::vector<std::int64_t>{2, 1}) == std::vector<BlockRange>{{0, 2}, {2, 3}};
  CHECK(cut_as_told);
}

TEST_CASE("rank 0 has the last stage, and the ranks of a stage are neighbours", "[pipeline]") {
  const PipelineGrid grid{.rank = 4, .ranks = 6, .stages = 3};
  CHECK(grid.columns() == 2);
  CHECK(grid.stage() == 0);
  CHECK(grid.column() == 0);
  CHECK(grid.rank_of(2) == 0);
  for (int rank = 0; rank < 6; ++rank) {
    const PipelineGrid other{.rank = rank, .ranks = 6, .stages = 3};
    CHECK(other.rank_of(other.stage()) == rank);
  }
}

}  // namespace
}  // namespace cxtrain
