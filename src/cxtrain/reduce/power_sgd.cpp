#include "cxtrain/reduce/power_sgd.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "cxtrain/config/plan.h"

namespace cxtrain {
namespace {

constexpr const char* kQ = "q";

std::optional<Problem> refuse_loss_scale(const Plan& plan) {
  if (plan.precision != "16-mixed") return std::nullopt;
  return Problem{"strategy.comm_hook", "powersgd works without a loss scale, which 16-mixed needs",
                 "use --precision bf16-mixed, or another comm_hook", MessageCode::conflicting_options};
}

constexpr double kEpsilon = 1e-8;  // of Vogels et al.: a column of zeros stays one

/// FNV-1a: the same on every machine.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

/// On the host the bits depend on no library's kernels, so that ranks on different processors agree.
template <class Element>
void make_orthogonal_on_host(const at::Tensor& matrix) {
  auto rows = matrix.accessor<Element, 2>();
  const std::int64_t count = matrix.size(0), columns = matrix.size(1);
  const auto product = [&](std::int64_t a, std::int64_t b) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i)
      sum += static_cast<double>(rows[i][a]) * static_cast<double>(rows[i][b]);
    return sum;
  };
  for (std::int64_t column = 0; column < columns; ++column) {
    for (std::int64_t before = 0; before < column; ++before) {
      const double part = product(before, column);
      for (std::int64_t i = 0; i < count; ++i)
        rows[i][column] -= static_cast<Element>(part * static_cast<double>(rows[i][before]));
    }
    const double length = std::sqrt(product(column, column)) + kEpsilon;
    for (std::int64_t i = 0; i < count; ++i)
      rows[i][column] = static_cast<Element>(static_cast<double>(rows[i][column]) / length);
  }
}

/// Writes P Q^T by elementwise operations: ranks on different processors would round a matrix product
/// differently.
void write_product(const at::Tensor& into, const at::Tensor& p, const at::Tensor& q) {
  at::Tensor result = into;
  for (std::int64_t r = 0; r < p.size(1); ++r) {
    const at::Tensor column = p.narrow(1, r, 1), row = q.narrow(1, r, 1).t();
    if (r == 0) {
      at::mul_out(result, column, row);
    } else {
      result.addcmul_(column, row);
    }
  }
}

}  // namespace

void make_orthogonal(const at::Tensor& matrix) {
  if (matrix.is_cpu())
    return matrix.scalar_type() == at::kDouble ? make_orthogonal_on_host<double>(matrix)
                                               : make_orthogonal_on_host<float>(matrix);
  for (std::int64_t column = 0; column < matrix.size(1); ++column) {
    at::Tensor own = matrix.narrow(1, column, 1);
    if (column > 0) {
      const at::Tensor before = matrix.narrow(1, 0, column);
      own.sub_(before.mm(before.t().mm(own)));
    }
    own.div_(own.norm().add_(kEpsilon));
  }
}

CommHookTraits PowerSgd::traits() { return {.refuse = refuse_loss_scale, .remembered_gradients = 1}; }

void PowerSgd::prepare(const std::vector<NamedTensor>& parameters, Communicator& communicator) {
  parameters_ = parameters;
  communicator_ = &communicator;
  for (const NamedTensor& parameter : parameters_) {
    if (parameter.tensor.scalar_type() == at::kDouble) dtype_ = at::kDouble;
  }
  lay_out();
}

at::Tensor PowerSgd::first_q(const std::string& name, std::int64_t columns, std::int64_t rank,
                             at::Device device) const {
  at::Generator generator = at::detail::createCPUGenerator(seed_ ^ hash_of(name));
  return at::randn({columns, rank}, generator, at::TensorOptions().dtype(dtype_)).to(device);
}

void PowerSgd::lay_out() {
  matrices_.clear();
  vectors_.clear();
  trained_.clear();
  std::int64_t first = 1, second = 0;  // elements of the messages; one says whether there are gradients
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& tensor = parameters_[i].tensor;
    trained_.push_back(tensor.requires_grad());
    if (!trained_.back() || tensor.numel() == 0) continue;
    const std::int64_t n = tensor.dim() > 0 ? tensor.size(0) : 1, m = tensor.numel() / n;
    const std::int64_t r = std::min({n, m, args_.rank});
    if (tensor.dim() < 2 || 2 * (n + m) * r > n * m) {
      vectors_.push_back({i, {}});
      first += tensor.numel();
      continue;
    }
    const at::Tensor q = first_q(parameters_[i].name, m, r, tensor.device());
    Remembered& own = remembered_[parameters_[i].name];
    if (!own.error.defined())
      own.error = at::zeros({n, m}, tensor.options().dtype(dtype_).requires_grad(false));
    if (!own.q.defined() || own.q.sizes() != q.sizes()) own.q = q.clone();
    matrices_.push_back({.parameter = i, .error = own.error, .q = own.q, .first_q = q, .p = {}, .new_q = {}});
    first += n * r;
    second += m * r;
  }
  if (parameters_.empty()) return;
  const at::Device device = parameters_.front().tensor.device();
  first_message_ = communicator_->allocate(first, dtype_, device);
  if (second > 0) second_message_ = communicator_->allocate(second, dtype_, device);
  has_gradients_ = first_message_.narrow(0, 0, 1);
  first = 1;
  second = 0;
  for (Matrix& matrix : matrices_) {
    const std::int64_t n = matrix.error.size(0), m = matrix.q.size(0), r = matrix.q.size(1);
    matrix.p = first_message_.narrow(0, std::exchange(first, first + n * r), n * r).view({n, r});
    matrix.new_q = second_message_.narrow(0, std::exchange(second, second + m * r), m * r).view({m, r});
  }
  for (Vector& vector : vectors_) {
    const at::Tensor& tensor = parameters_[vector.parameter].tensor;
    vector.place = first_message_.narrow(0, std::exchange(first, first + tensor.numel()), tensor.numel())
                       .view(tensor.sizes());
  }
}

void PowerSgd::average() {
  const at::NoGradGuard no_grad;
  std::vector<bool> trained;
  for (const NamedTensor& parameter : parameters_) trained.push_back(parameter.tensor.requires_grad());
  if (trained != trained_) lay_out();
  has_gradients_.fill_(add_missing_gradients() ? 1 : 0);
  for (Matrix& matrix : matrices_) {
    matrix.error.add_(gradient_of(matrix.parameter).reshape(matrix.error.sizes()));  // M
    matrix.p.copy_(at::mm(matrix.error, matrix.q));
  }
  for (Vector& vector : vectors_) vector.place.copy_(gradient_of(vector.parameter));
  communicator_->all_reduce(first_message_, ReduceOp::avg);
  communicator_->join();
  const at::Tensor any = has_gradients_.sign();
  for (Vector& vector : vectors_) gradient_of(vector.parameter).copy_(vector.place);
  if (matrices_.empty()) return;
  for (Matrix& matrix : matrices_) {
    make_orthogonal(matrix.p.mul_(any.to(matrix.p.device())));
    matrix.new_q.copy_(at::mm(matrix.error.t(), matrix.p));
  }
  communicator_->all_reduce(second_message_, ReduceOp::avg);
  communicator_->join();
  for (Matrix& matrix : matrices_) {
    take_approximation(matrix);
    // A column of zeros would stay a column of zeros.
    const at::Tensor is_zero = matrix.new_q.abs().sum(0, /*keepdim=*/true).eq(0);
    const at::Tensor next = at::where(is_zero, matrix.first_q, matrix.new_q);
    matrix.q.copy_(at::where(any.to(next.device()).eq(0), matrix.q, next));
  }
}

/// Returns whether there was any gradient.
bool PowerSgd::add_missing_gradients() {
  bool any = false;
  for (NamedTensor& parameter : parameters_) {
    if (!parameter.tensor.requires_grad()) continue;
    at::Tensor& gradient = parameter.tensor.mutable_grad();
    any = any || gradient.defined();
    if (!gradient.defined()) gradient = at::zeros_like(parameter.tensor);
  }
  return any;
}

/// Makes P Q^T the gradient, and what is left of M the error.
void PowerSgd::take_approximation(Matrix& matrix) {
  at::Tensor& gradient = gradient_of(matrix.parameter);
  const bool in_place = gradient.is_contiguous() && gradient.scalar_type() == dtype_;
  const at::Tensor rows = in_place ? gradient.view(matrix.error.sizes()) : at::empty_like(matrix.error);
  write_product(rows, matrix.p, matrix.new_q);
  if (!in_place) gradient.copy_(rows.view(gradient.sizes()));
  matrix.error.sub_(rows);
}

void PowerSgd::save(StateDict& state) const {
  StateDict& errors = state.make_section(kMeanOfRanks);
  StateDict& qs = state.make_section(kQ);
  for (const auto& [name, own] : remembered_) {
    errors.set(name, own.error);
    qs.set(name, own.q);
  }
}

void PowerSgd::load(const StateDict& state) {
  const StateDict &errors = state.section(kMeanOfRanks), &qs = state.section(kQ);
  for (const NamedTensor& parameter : parameters_) {
    if (!qs.has(parameter.name)) continue;
    const auto take = [&](const StateDict& from, at::Tensor& into) {
      const at::Tensor saved = from.tensor(parameter.name);
      if (!into.defined())
        into = at::empty(saved.sizes(), parameter.tensor.options().dtype(dtype_).requires_grad(false));
      if (into.sizes() == saved.sizes()) into.copy_(saved);
    };
    Remembered& own = remembered_[parameter.name];
    take(errors, own.error);
    take(qs, own.q);
  }
}

}  // namespace cxtrain
