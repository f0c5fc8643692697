#include "cxtrain/comm/communicator.h"

#include <functional>
#include <string>

#include "cxtrain/base/error.h"
#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain {
namespace {

/// `whole`: the one of all ranks' shares; `share`: of this rank.
void check_shares(const char* operation, const Communicator& communicator, const char* whole_name,
                  const at::Tensor& whole, const char* share_name, const at::Tensor& share) {
  check_dense(operation, whole);
  check_dense(operation, share);
  const auto refuse = [&](const std::string& found) {
    throw CommunicationError(std::string(operation) + ": " + found);
  };
  if (whole.scalar_type() != share.scalar_type() || whole.device() != share.device()) {
    refuse(std::string(whole_name) + " is of " + c10::toString(whole.scalar_type()) + " on " +
           whole.device().str() + ", " + share_name + " of " + c10::toString(share.scalar_type()) + " on " +
           share.device().str() + "; both have to be of one dtype, on one device");
  }
  if (whole.numel() != share.numel() * communicator.size()) {
    refuse(std::string(whole_name) + " has " + std::to_string(whole.numel()) + " elements and " + share_name +
           " has " + std::to_string(share.numel()) + "; for " + std::to_string(communicator.size()) +
           " ranks the first has to be " + std::to_string(communicator.size()) +
           " times the second (pad what does not divide)");
  }
  if (share.numel() == 0) return;
  const auto* all = static_cast<const std::byte*>(whole.const_data_ptr());
  const auto* one = static_cast<const std::byte*>(share.const_data_ptr());
  const std::less<> before;
  const bool apart = !before(one, all + whole.nbytes()) || !before(all, one + share.nbytes());
  if (apart || one == all + static_cast<std::size_t>(communicator.rank()) * share.nbytes()) return;
  refuse(std::string(share_name) + " overlaps " + whole_name + " and is not this rank's share of it; pass " +
         "that, or memory apart");
}

}  // namespace

void check_dense(const char* operation, const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense()) return;
  throw CommunicationError(std::string(operation) +
                               ": needs a dense tensor, and there are gaps between the elements of this "
                               "one; make it .contiguous()",
                           MessageCode::bad_tensor);
}

void check_root(const Communicator& communicator, int root) {
  if (root >= 0 && root < communicator.size()) return;
  throw CommunicationError(
      "broadcast: there is no rank " + std::to_string(root) + " among " + std::to_string(communicator.size()),
      MessageCode::bad_tensor);
}

void check_peer(const char* operation, const Communicator& communicator, int peer) {
  const std::string refused = std::string(operation) + ": ";
  if (peer < 0 || peer >= communicator.size()) {
    throw CommunicationError(refused + "there is no rank " + std::to_string(peer) + " among " +
                                 std::to_string(communicator.size()),
                             MessageCode::bad_tensor);
  }
  if (peer == communicator.rank()) {
    throw CommunicationError(
        refused + "rank " + std::to_string(peer) + " is this one; copy the tensor instead",
        MessageCode::bad_tensor);
  }
}

void check_reduce_scatter(const Communicator& communicator, const at::Tensor& output,
                          const at::Tensor& input) {
  check_shares("reduce_scatter", communicator, "input", input, "output", output);
  if (has_reduce_kernel(input.scalar_type())) return;
  throw CommunicationError(std::string("reduce_scatter: cannot reduce tensors of ") +
                               c10::toString(input.scalar_type()) +
                               "; use float32, float64, bfloat16, float16, int32, int64 or uint8",
                           MessageCode::bad_tensor);
}

void check_all_gather(const Communicator& communicator, const at::Tensor& output, const at::Tensor& input) {
  check_shares("all_gather", communicator, "output", output, "input", input);
}

}  // namespace cxtrain
