#include "support/fake_device/nccl_message.h"

#include <cstring>
#include <map>

#include "cxtrain/comm/reduce_kernels.h"

namespace cxtrain::test {

namespace {

struct Type {
  std::size_t size;
  const char* name;
  c10::ScalarType dtype;
};

const std::map<ncclDataType_t, Type>& types() {
  static const std::map<ncclDataType_t, Type> all{
      {ncclFloat32, {4, "float32", c10::kFloat}}, {ncclFloat64, {8, "float64", c10::kDouble}},
      {ncclFloat16, {2, "float16", c10::kHalf}},  {ncclBfloat16, {2, "bfloat16", c10::kBFloat16}},
      {ncclInt32, {4, "int32", c10::kInt}},       {ncclInt64, {8, "int64", c10::kLong}},
      {ncclUint8, {1, "uint8", c10::kByte}}};
  return all;
}

const std::map<ncclRedOp_t, ReduceOp>& operations() {
  static const std::map<ncclRedOp_t, ReduceOp> all{
      {ncclSum, ReduceOp::sum}, {ncclAvg, ReduceOp::avg}, {ncclMin, ReduceOp::min}, {ncclMax, ReduceOp::max}};
  return all;
}

bool reduces(const std::string& name) {
  return name == "all_reduce" || name == "reduce" || name == "reduce_scatter";
}

}  // namespace

std::size_t size_of(ncclDataType_t type) { return types().contains(type) ? types().at(type).size : 0; }

std::string name_of(ncclDataType_t type) { return types().contains(type) ? types().at(type).name : ""; }

bool can_reduce(ncclDataType_t type, ncclRedOp_t op) {
  return types().contains(type) && operations().contains(op);
}

bool NcclMessage::fits(const NcclMessage& other) const {
  return name == other.name && count == other.count && type == other.type && peer == other.peer &&
         (!reduces(name) || op == other.op);
}

std::size_t NcclMessage::bytes_sent(int rank, int size) const {
  if (name == "split" || name == "recv" || (name == "broadcast" && rank != peer)) return 0;
  return count * size_of(type) * (name == "reduce_scatter" ? static_cast<std::size_t>(size) : 1);
}

std::size_t NcclMessage::bytes_received(int rank, int size) const {
  if (name == "split" || name == "send" || (name == "reduce" && rank != peer)) return 0;
  return count * size_of(type) * (name == "all_gather" ? static_cast<std::size_t>(size) : 1);
}

std::vector<Access> NcclMessage::accesses(int rank, int size) const {
  const std::string what = name_of(type) + ", " + std::to_string(count) + " elements";
  std::vector<Access> all;
  if (const std::size_t bytes = bytes_sent(rank, size); bytes > 0)
    all.push_back({{ByteSet::interval(send, bytes)}, false, what});
  if (const std::size_t bytes = bytes_received(rank, size); bytes > 0)
    all.push_back({{ByteSet::interval(receive, bytes)}, true, what});
  return all;
}

void combine(const NcclMessage& message, int rank, const std::vector<const std::byte*>& sent,
             std::byte* result) {
  const std::size_t bytes = message.count * size_of(message.type);
  if (!reduces(message.name)) {
    if (message.name == "broadcast") {
      std::memcpy(result, sent[static_cast<std::size_t>(message.peer)], bytes);
    } else {
      for (std::size_t member = 0; member < sent.size(); ++member)
        std::memcpy(result + member * bytes, sent[member], bytes);
    }
    return;
  }
  std::vector<const std::byte*> from = sent;
  if (message.name == "reduce_scatter") {
    for (const std::byte*& share : from) share += static_cast<std::size_t>(rank) * bytes;
  }
  const ReduceOp op = operations().at(message.op);
  reduce_elements(types().at(message.type).dtype, op, from, {&result, 1}, message.count,
                  op == ReduceOp::avg ? static_cast<int>(sent.size()) : 1);
}

}  // namespace cxtrain::test
