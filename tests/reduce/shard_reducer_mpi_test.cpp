#include "cxtrain/reduce/shard_reducer.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>

#include "cxtrain/base/error.h"
#include "cxtrain/reduce/reducer.h"
#include "support/catch.h"
#include "support/error_text.h"
#include "support/host_communicator.h"

namespace cxtrain {
namespace {

/// Parameters of several sizes; a frozen one, one of another dtype, and one without elements.
std::vector<NamedTensor> parameters() {
  at::manual_seed(4);
  std::vector<NamedTensor> made;
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{5}, {300, 40}, {20000}, {0, 4}, {70, 90}, {12}, {33, 200}}) {
    const auto dtype = made.size() == 5 ? at::kDouble : at::kFloat;
    made.push_back(
        {"p" + std::to_string(made.size()), at::randn(shape, dtype).requires_grad_(made.size() != 0)});
  }
  return made;
}

/// The gradient of a parameter depends on rank, step and element.
void backward(const std::vector<NamedTensor>& parameters, int step, std::size_t without = 99) {
  at::Tensor loss = at::zeros({});
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters[i].tensor;
    if (i == without || !tensor.requires_grad()) continue;
    const double factor = 0.3 + test_world().rank() + 0.7 * step;
    const at::Tensor slope = at::arange(tensor.numel(), tensor.options().requires_grad(false));
    loss = loss.add((tensor * slope.view(tensor.sizes()).mul(factor).sin()).sum().to(at::kFloat));
  }
  loss.backward();
}

struct Both {
  explicit Both(std::int64_t row_bytes, ShardReducerOptions options = {}, int per_node = 0)
      : comm(test::host_communicator(per_node)),
        rows(divided_rows(divided, per_node == 0 ? test_world().size() : per_node, row_bytes)),
        shard(per_node == 0 ? test_world().rank() : test_world().rank() % per_node),
        shards(divided, rows, shard, comm, test_world(), options),
        reducer(whole, comm, test_world(), {.find_unused_parameters = options.find_unused_parameters}) {}

  void step(int step, int micro_batches, std::size_t without = 99) {
    shards.zero_gradients();
    reducer.zero_gradients();
    for (int micro = 0; micro < micro_batches; ++micro) {
      const bool last = micro + 1 == micro_batches;
      shards.begin_backward(last);
      backward(divided, step + micro, without);
      shards.end_backward();
    }
    shards.finish();
    for (int micro = 0; micro < micro_batches; ++micro) {
      reducer.begin_backward(micro + 1 == micro_batches);
      backward(whole, step + micro, without);
      reducer.end_backward();
    }
    reducer.finish();
  }

  void check() const {
    for (const DividedRow& row : rows) {
      for (std::size_t k = 0; k < row.parameters.size(); ++k) {
        const std::size_t i = row.parameters[k];
        CAPTURE(i);
        const GradientShard* const own = shards.shard_of(divided[i].tensor);
        REQUIRE(own != nullptr);
        const at::Tensor& average = whole[i].tensor.grad();
        REQUIRE(own->present == average.defined());
        CHECK_FALSE(divided[i].tensor.grad().defined());
        if (!own->present) continue;
        const ElementRange range = row.plan.shards[static_cast<std::size_t>(shard)][k];
        CHECK(at::equal(own->values.reshape({-1}), average.reshape({-1}).slice(0, range.begin, range.end)));
      }
    }
  }

  std::vector<NamedTensor> divided = parameters(), whole = parameters();
  HostCommunicator comm;
  std::vector<DividedRow> rows;
  int shard;
  ShardReducer shards;
  Reducer reducer;
};

TEST_CASE("a model of any size has few rows") {
  std::vector<NamedTensor> many;
  for (int i = 0; i < 500; ++i) many.push_back({"p" + std::to_string(i), at::zeros({300})});
  const std::vector<DividedRow> rows = divided_rows(many, 3, /*row_bytes=*/1);
  CHECK(rows.size() > 50);
  CHECK(rows.size() <= 64);
}

TEST_CASE("trained and frozen parameters have rows of their own") {
  std::vector<NamedTensor> parameters;
  for (int i = 0; i < 6; ++i)
    parameters.push_back({"p" + std::to_string(i), at::zeros({100}).set_requires_grad(i % 3 == 0)});
  for (const std::int64_t row_bytes : {0, 1000, 100'000}) {
    const std::vector<DividedRow> rows = divided_rows(parameters, 2, row_bytes);
    std::vector<bool> trained;
    std::size_t found = 0;
    for (const DividedRow& row : rows) {
      trained.push_back(parameters[row.parameters.front()].tensor.requires_grad());
      found += row.parameters.size();
      for (const std::size_t i : row.parameters)
        CHECK(parameters[i].tensor.requires_grad() == trained.back());
    }
    CHECK(found == parameters.size());
    CHECK(std::is_sorted(trained.begin(), trained.end(), std::greater<>()));
  }
}

TEST_CASE("an exchange of shards is rehearsed, and steps after that have the same bits") {
  const int per_node = GENERATE(0, 1);
  const bool overlap = GENERATE(true, false);
  CAPTURE(per_node, overlap);
  Both both(/*row_bytes=*/30000, {.overlap = overlap}, per_node);
  for (int step = 0; step < 3; ++step) {
    both.step(step, /*micro_batches=*/1);
    both.check();
    const std::optional<Rehearsal> made = both.shards.rehearse();
    REQUIRE(made.has_value());
    const auto is_trained = [&](const DividedRow& row) {
      return both.divided[row.parameters.front()].tensor.requires_grad();
    };
    CHECK(made->messages == std::count_if(both.rows.begin(), both.rows.end(), is_trained));
    CHECK(made->bytes > made->last_bytes);
    CHECK(made->waits_for_backward == (both.comm.overlaps() && !overlap));
  }
}

TEST_CASE("shards have the bits that whole averages have, for rows of any size") {
  const std::int64_t row_bytes = GENERATE(1, 30000, 0);
  const bool overlap = GENERATE(true, false);
  const int micro_batches = GENERATE(1, 3);
  CAPTURE(row_bytes, overlap, micro_batches);
  Both both(row_bytes, {.overlap = overlap});
  for (int step = 0; step < 3; ++step) {
    both.step(step, micro_batches);
    both.check();
  }
  CHECK_FALSE(both.shards.shard_of(both.divided[0].tensor)->present);  // frozen
}

/// The sums of the averages of each micro-batch.
std::vector<at::Tensor> summed_averages(Both& both, int step, int micro_batches) {
  std::vector<at::Tensor> sums(both.whole.size());
  for (int micro = 0; micro < micro_batches; ++micro) {
    both.reducer.zero_gradients();
    both.reducer.begin_backward(true);
    backward(both.whole, step + micro);
    both.reducer.end_backward();
    both.reducer.finish();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const at::Tensor& average = both.whole[i].tensor.grad();
      if (average.defined()) sums[i] = sums[i].defined() ? sums[i].add(average) : average.clone();
    }
  }
  return sums;
}

TEST_CASE("shards accumulate the averages of micro-batches, and no rank keeps whole gradients") {
  const int per_node = test_world().size() == 4 ? GENERATE(0, 2) : 0;
  const bool overlap = GENERATE(true, false);
  CAPTURE(per_node, overlap);
  Both both(30000, {.overlap = overlap, .accumulate_shards = true}, per_node);
  constexpr int kMicroBatches = 3;
  for (int step = 0; step < 3; ++step) {
    both.shards.zero_gradients();
    for (int micro = 0; micro < kMicroBatches; ++micro) {
      both.shards.begin_backward(micro + 1 == kMicroBatches);
      backward(both.divided, step + micro);
      both.shards.end_backward();
      for (const NamedTensor& each : both.divided) CHECK_FALSE(each.tensor.grad().defined());
    }
    both.shards.finish();
    const std::vector<at::Tensor> sums = summed_averages(both, step, kMicroBatches);
    for (const DividedRow& row : both.rows) {
      for (std::size_t k = 0; k < row.parameters.size(); ++k) {
        const std::size_t i = row.parameters[k];
        const GradientShard& own = *both.shards.shard_of(both.divided[i].tensor);
        CAPTURE(step, i);
        REQUIRE(own.present == sums[i].defined());
        if (!own.present) continue;
        const ElementRange range = row.plan.shards[static_cast<std::size_t>(both.shard)][k];
        CHECK(at::equal(own.values.reshape({-1}), sums[i].reshape({-1}).slice(0, range.begin, range.end)));
      }
    }
  }
}

TEST_CASE("the ranks of each node have shards of the averages over all nodes") {
  if (test_world().size() != 4) return test::skip_for_ranks("two nodes of two ranks");
  Both both(30000, {}, 2);
  for (int step = 0; step < 3; ++step) {
    both.step(step, 1);
    both.check();
  }
}

TEST_CASE("a parameter without a gradient counts as zero, or has none if that is wanted") {
  const bool wanted = GENERATE(true, false);
  Both both(30000, {.find_unused_parameters = wanted});
  both.step(0, 1, /*without=*/4);
  both.check();
  CHECK(both.shards.shard_of(both.divided[4].tensor)->present == !wanted);
  both.step(1, 1);
  both.check();
}

TEST_CASE("a frozen parameter has no gradient until the parameter is trained again") {
  Both both(30000);
  both.step(0, 1);
  for (const auto* list : {&both.divided, &both.whole}) list->at(2).tensor.set_requires_grad(false);
  both.shards.zero_gradients();
  both.shards.begin_backward(true);
  backward(both.divided, 1);
  both.shards.end_backward();
  both.shards.finish();
  CHECK_FALSE(both.shards.shard_of(both.divided[2].tensor)->present);
  for (const auto* list : {&both.divided, &both.whole}) list->at(2).tensor.set_requires_grad(true);
  both.step(2, 1);
  both.check();
}

TEST_CASE("a second gradient after its row was reduced is an error with a cure") {
  Both both(1);
  both.shards.zero_gradients();
  both.shards.begin_backward(true);
  backward(both.divided, 0);
  CHECK_THAT(test::error_of([&] { backward(both.divided, 0); }),
             test::contains("p6") && test::contains("--strategy.overlap false"));
  both.shards.end_backward();
}

}  // namespace
}  // namespace cxtrain
