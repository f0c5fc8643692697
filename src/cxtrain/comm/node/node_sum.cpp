#include "cxtrain/comm/node/node_sum.h"

#include <algorithm>

namespace cxtrain {

void NodeSum::add_slice(std::size_t first, std::size_t last, std::size_t slice) {
  if (last > range_.begin && first < range_.end) values_.push_back({first, last, slice, {}});
}

bool NodeSum::wait_for_values(const std::atomic<bool>& stop) {
  if (!board_.wait_for_all(sum_.number, stop)) return false;
  if (values_.empty()) values_.push_back({0, range_.end, std::nullopt, {}});
  for (Values& values : values_) {
    for (int rank = 0; rank < windows_.local_size(); ++rank)
      values.copies.push_back(values.slice ? windows_.at_noted(rank, *values.slice)
                                           : windows_.at(rank, sum_.memory));
  }
  sources_.resize(static_cast<std::size_t>(windows_.local_size()));
  return true;
}

std::byte* NodeSum::in_place(std::size_t first, std::size_t) {
  const bool alone = sources_.size() == 1 && !values_[0].slice && !sum_.wire;
  return alone ? values_[0].copies[0] + (range_.begin + first) * element_ : nullptr;
}

std::size_t NodeSum::count() const {
  const std::size_t elements = range_.end - range_.begin;
  return in_blocks() ? ScaledHalf::blocks(elements) : elements;
}

std::size_t NodeSum::element_bytes() const {
  if (in_blocks()) return ScaledHalf::kBytes;
  return c10::elementSize(sum_.wire.value_or(sum_.dtype));
}

void NodeSum::combine(std::span<const std::byte* const> values, std::byte* to, std::size_t count) const {
  if (in_blocks()) return reduce_scaled(sum_.op, values, to, count, sum_.divisor);
  reduce_elements(sum_.wire.value_or(sum_.dtype), sum_.op, values, {&to, 1}, count, sum_.divisor);
}

NodeSum::Range NodeSum::elements_of(std::size_t first, std::size_t last) const {
  if (!in_blocks()) return {first, last};
  return {first * ScaledHalf::kValues, std::min(last * ScaledHalf::kValues, range_.end - range_.begin)};
}

void NodeSum::read(std::size_t first, std::size_t last, std::byte* to) {
  if (!sum_.wire) return sum_over_node(first, last, to);
  const auto [begin, end] = elements_of(first, last);
  sums_.resize((end - begin) * element_);
  // All values of a block decide on its power of two, also the values between the slices.
  if (in_blocks()) std::ranges::fill(sums_, std::byte{0});
  sum_over_node(begin, end, sums_.data());
  if (in_blocks()) return round_to_scaled(sum_.dtype, sums_.data(), to, end - begin);
  round_to_bfloat16(sum_.dtype, sums_.data(), to, end - begin);
}

void NodeSum::write(std::size_t first, std::size_t last, const std::byte* from) {
  if (!sum_.wire) return spread(first, last, from);
  const auto [begin, end] = elements_of(first, last);
  sums_.resize((end - begin) * element_);
  if (in_blocks()) {
    widen_scaled(sum_.dtype, from, sums_.data(), end - begin);
  } else {
    widen_bfloat16(sum_.dtype, from, sums_.data(), end - begin);
  }
  spread(begin, end, sums_.data());
}

void NodeSum::sum_over_node(std::size_t first, std::size_t last, std::byte* to) {
  for_each_part(first, last, [&](const Values& values, std::size_t offset, std::size_t at, std::size_t n) {
    for (std::size_t r = 0; r < sources_.size(); ++r) sources_[r] = values.copies[r] + offset * element_;
    std::byte* const target = to + at * element_;
    reduce_elements(sum_.dtype, sum_.op, sources_, {&target, 1}, n, /*divisor=*/1);
  });
}

void NodeSum::spread(std::size_t first, std::size_t last, const std::byte* from) const {
  for_each_part(first, last, [&](const Values& values, std::size_t offset, std::size_t at, std::size_t n) {
    for (std::byte* copy : values.copies)
      std::copy_n(from + at * element_, n * element_, copy + offset * element_);
  });
}

/// Calls `work(values, offset in the values, offset from `first`, number)` for the elements of the range that
/// have values.
template <class Work>
void NodeSum::for_each_part(std::size_t first, std::size_t last, const Work& work) const {
  const std::size_t begin = range_.begin + first, end = range_.begin + last;
  auto values = std::ranges::partition_point(values_, [&](const Values& each) { return each.last <= begin; });
  for (; values != values_.end() && values->first < end; ++values) {
    const std::size_t from = std::max(begin, values->first), to = std::min(end, values->last);
    if (from < to) work(*values, from - values->first, from - begin, to - from);
  }
}

void ShardSum::write(int /*part*/, std::size_t first, std::size_t last, const std::byte* from) {
  const std::size_t element = c10::elementSize(dtype());
  std::copy_n(from, (last - first) * element,
              static_cast<std::byte*>(shards_.output.mutable_data_ptr()) + first * element);
}

void ShardGather::finished() {
  for (std::size_t part = 0; part < shards_.first.size(); ++part) {
    const std::byte* const from = place(shards_.local_rank, static_cast<int>(part));
    for (int rank = 0; rank < windows_.local_size(); ++rank) {
      if (rank != shards_.local_rank) std::copy_n(from, shards_.bytes, place(rank, static_cast<int>(part)));
    }
  }
  board_.finish(shards_.number);
}

}  // namespace cxtrain
