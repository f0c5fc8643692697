#include "cxtrain/comm/solo_communicator.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include "cxtrain/comm/communicator.h"
#include "cxtrain/tensor/layout.h"

namespace cxtrain {
namespace {

void copy_share(const at::Tensor& to, const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  if (to.const_data_ptr() != from.const_data_ptr()) flat(to).copy_(flat(from));
}

}  // namespace

at::Tensor SoloCommunicator::allocate(std::int64_t numel, at::ScalarType dtype, at::Device device) {
  return at::zeros({numel}, at::TensorOptions().dtype(dtype).device(device));
}

void SoloCommunicator::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp) {
  check_reduce_scatter(*this, output, input);
  copy_share(output, input);
}

void SoloCommunicator::all_gather(const at::Tensor& output, const at::Tensor& input) {
  check_all_gather(*this, output, input);
  copy_share(output, input);
}

}  // namespace cxtrain
