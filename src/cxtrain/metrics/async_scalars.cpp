#include "cxtrain/metrics/async_scalars.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "cxtrain/accelerator/devices.h"

namespace cxtrain {

AsyncScalars::AsyncScalars(const std::vector<at::Tensor>& numbers) : count_(numbers.size()) {
  const at::NoGradGuard no_grad;
  using Kind = std::pair<c10::Device, at::ScalarType>;
  const auto before = [](const Kind& a, const Kind& b) {
    return std::pair(a.first.str(), a.second) < std::pair(b.first.str(), b.second);
  };
  std::map<Kind, std::vector<std::size_t>, decltype(before)> kinds(before);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].defined()) kinds[{numbers[i].device(), numbers[i].scalar_type()}].push_back(i);
  }
  std::optional<c10::Device> last;
  for (auto& [kind, places] : kinds) {
    std::vector<at::Tensor> list;
    for (const std::size_t place : places) list.push_back(numbers[place].reshape({1}));
    at::Tensor there = at::cat(list).to(at::kDouble);
    if (!kind.first.is_cpu()) {
      const auto count = static_cast<std::int64_t>(places.size());
      const at::Tensor here = at::empty({count}, at::TensorOptions().dtype(at::kDouble).pinned_memory(true));
      here.copy_(there, /*non_blocking=*/true);
      if (kind.first != last) ends_.emplace_back(kind.first.type());
      ends_.back().record(current_stream(kind.first));
      last = kind.first;
      there = here;
    }
    copies_.push_back({std::move(places), std::move(there)});
  }
}

bool AsyncScalars::arrived() const {
  return std::ranges::all_of(ends_, [](const c10::Event& end) { return end.query(); });
}

std::vector<double> AsyncScalars::wait() const {
  for (const c10::Event& end : ends_) end.synchronize();
  std::vector<double> values(count_);
  for (const Copy& copy : copies_) {
    const double* from = copy.numbers.const_data_ptr<double>();
    for (const std::size_t place : copy.places) values[place] = *from++;
  }
  return values;
}

}  // namespace cxtrain
