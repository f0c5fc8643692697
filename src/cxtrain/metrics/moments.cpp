#include "cxtrain/metrics/moments.h"

#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

namespace cxtrain {

at::Tensor moments_of(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor mean_a = a.mean(0), mean_b = b.mean(0);
  const at::Tensor da = a.sub(mean_a), db = b.sub(mean_b);
  const at::Tensor count = at::full({a.size(1)}, static_cast<double>(a.size(0)), a.options());
  return at::stack({count, mean_a, mean_b, da.square().sum(0), db.square().sum(0), da.mul(db).sum(0)}, -1);
}

at::Tensor join_moments(const at::Tensor& one, const at::Tensor& two) {
  const auto sum = [&](std::int64_t i) { return one.select(-1, i).add(two.select(-1, i)); };
  const auto delta = [&](std::int64_t i) { return two.select(-1, i).sub(one.select(-1, i)); };
  const at::Tensor count = sum(0), delta_a = delta(1), delta_b = delta(2);
  const at::Tensor share = at::where(count.gt(0), two.select(-1, 0).div(count), 0.0);
  const at::Tensor weight = one.select(-1, 0).mul(share);
  return at::stack({count, one.select(-1, 1).add(delta_a.mul(share)),
                    one.select(-1, 2).add(delta_b.mul(share)), sum(3).add(delta_a.square().mul(weight)),
                    sum(4).add(delta_b.square().mul(weight)), sum(5).add(delta_a.mul(delta_b).mul(weight))},
                   -1);
}

}  // namespace cxtrain
