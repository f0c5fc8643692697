#include "gathered_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/strides.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "cxtrain/base/error.h"
#include "cxtrain/tensor/hollow.h"

namespace cxtrain {
namespace {

/// The blocks that have a tensor.
using BlocksOfTensors = std::unordered_map<const at::TensorImpl*, std::vector<std::size_t>>;

BlocksOfTensors blocks_of_tensors(const Blocks& blocks) {
  BlocksOfTensors found;
  for (std::size_t block = 0; block < blocks.size(); ++block) {
    for (const auto& tensors : {blocks.parameters_of(block), blocks.buffers_of(block)}) {
      for (const at::Tensor& tensor : tensors) found[tensor.unsafeGetTensorImpl()].push_back(block);
    }
  }
  return found;
}

/// The rows of each block.
std::vector<std::vector<std::size_t>> rows_of_blocks(const std::vector<DividedRow>& rows,
                                                     const std::vector<NamedTensor>& parameters,
                                                     const Blocks& blocks) {
  BlocksOfTensors of_tensors = blocks_of_tensors(blocks);
  std::vector<std::set<std::size_t>> found(blocks.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (const std::size_t i : rows[row].parameters) {
      for (const std::size_t block : of_tensors[parameters[i].tensor.unsafeGetTensorImpl()])
        found[block].insert(row);
    }
  }
  std::vector<std::vector<std::size_t>> result;
  for (const std::set<std::size_t>& of_block : found) result.emplace_back(of_block.begin(), of_block.end());
  return result;
}

}  // namespace

class GatheredModel::Held {
 public:
  Held(GatheredModel& model, Row& row) : model_(model), row_(row) {
    if (row_.users == 0) model_.gather(row_);
    model_.use(row_);
  }
  ~Held() { model_.leave(row_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  GatheredModel& model_;
  Row& row_;
};

GatheredModel::GatheredModel(const Trainable& module, const Blocks& blocks, Communicator& group,
                             std::int64_t row_bytes, std::span<const Piece> kept)
    : group_(group) {
  const at::NoGradGuard no_grad;
  const std::vector<NamedTensor> parameters = module.all_parameters();
  for (const NamedTensor& parameter : parameters) entries_.push_back({.named = parameter});
  for (const NamedTensor& buffer : module.all_buffers()) entries_.push_back({.named = buffer});
  find_blocks(blocks);
  add_rows(parameters, row_bytes, kept);
  std::vector<DividedRow> rows;
  for (const Row& row : rows_) rows.push_back(row.shards.row);
  SlotPlan plan = plan_slots(rows, parameters, blocks);
  rows_of_block_ = std::move(plan.rows_of_block);
  for (const std::size_t largest : plan.largest) {
    const at::Tensor& share = rows_[largest].shards.share;
    slots_.push_back({group_.allocate(rows[largest].elements(), share.scalar_type(), share.device())});
  }
  for (std::size_t row = 0; row < rows.size(); ++row) rows_[row].slot = &slots_[plan.slot_of_row[row]];
  count_rows_of(parameters);
}

void GatheredModel::count_rows_of(const std::vector<NamedTensor>& parameters) {
  std::set<const at::TensorImpl*> counted;
  for (const NamedTensor& parameter : parameters) counted.insert(parameter.tensor.unsafeGetTensorImpl());
  std::vector<const Row*> rows;
  for (const Row& row : rows_) {
    const auto is_counted = [&](std::size_t entry) {
      return counted.contains(entries_[entry].named.tensor.unsafeGetTensorImpl());
    };
    if (std::ranges::any_of(row.entries(), is_counted)) rows.push_back(&row);
  }
  rows_from_.clear();
  for (std::size_t block = 0; block < rows_of_block_.size(); ++block) {
    const auto reaches_before = [&](const Row* row) {
      return std::ranges::any_of(row->entries(),
                                 [&](std::size_t entry) { return entries_[entry].first_block < block; });
    };
    rows_from_.push_back(static_cast<std::size_t>(std::ranges::find_if(rows, reaches_before) - rows.begin()));
  }
}

void GatheredModel::find_blocks(const Blocks& blocks) {
  const BlocksOfTensors of_tensors = blocks_of_tensors(blocks);
  for (Entry& entry : entries_) {
    const auto found = of_tensors.find(entry.named.tensor.unsafeGetTensorImpl());
    if (found == of_tensors.end()) {
      throw ConfigError("model", "`" + entry.named.name + "` belongs to no block of the model",
                        "register it in a module that add_block gets", MessageCode::bad_model);
    }
    entry.first_block = found->second.front();
  }
}

void GatheredModel::add_rows(const std::vector<NamedTensor>& parameters, std::int64_t row_bytes,
                             std::span<const Piece> kept) {
  for (DividedRow& planned : divided_rows(parameters, group_.size(), row_bytes)) {
    const auto options = parameters[planned.parameters.front()].tensor.options().requires_grad(false);
    at::Tensor share = at::zeros({planned.plan.share}, options);
    Row& row = rows_.emplace_back(Row{.shards = {.row = std::move(planned), .share = std::move(share)}});
    for (std::size_t k = 0; k < row.entries().size(); ++k) {
      Entry& entry = entries_[row.entries()[k]];
      entry.row = rows_.size() - 1;
      entry.place = k;
      store_part(entry, kept);
      divide(entry);
    }
  }
}

/// Takes the entry's memory away.
void GatheredModel::divide(Entry& entry) {
  at::Tensor& tensor = entry.named.tensor;
  const at::TensorOptions options = tensor.options().requires_grad(false);
  entry.storage = c10::Storage(c10::Storage::use_byte_size_t(), tensor.nbytes(),
                               at::DataPtr(nullptr, tensor.device()), /*allocator=*/nullptr,
                               /*resizable=*/false);
  const std::vector<std::int64_t> sizes = tensor.sizes().vec();
  // Parameters of rows are in row-major order.
  entry.whole = at::empty({0}, options).set_(entry.storage, 0, sizes, c10::contiguous_strides(sizes));
  entry.elsewhere = hollow(sizes, tensor);
  tensor.set_data(entry.elsewhere);
}

void GatheredModel::store_part(const Entry& entry, std::span<const Piece> kept) {
  fill_part(rows_[*entry.row].shards.part(entry.place, entry.named, group_.rank()), entry.named, kept);
}

// ------------------------------------------------------------------ rows in memory

/// Begins to gather a row.
void GatheredModel::gather(Row& row) {
  group_.all_gather(row.memory(), row.shards.share);
  row.slot->holds = &row;
  under_way_ = true;
}

/// Makes the parameters of a row, which its slot holds, whole.
void GatheredModel::use(Row& row) {
  if (std::exchange(under_way_, false)) group_.join();
  if (row.users++ > 0) return;
  auto* const begin = static_cast<std::byte*>(row.slot->memory.mutable_data_ptr());
  for (const std::size_t i : row.entries()) {
    Entry& entry = entries_[i];
    if (entry.kept) continue;
    const auto offset = static_cast<std::ptrdiff_t>(row.shards.row.plan.offsets[entry.place]) *
                        static_cast<std::ptrdiff_t>(row.slot->memory.itemsize());
    entry.storage.set_data_ptr_noswap(at::DataPtr(begin + offset, row.slot->memory.device()));
    entry.named.tensor.set_data(entry.whole);
  }
}

/// Ends a `use`. The last one leaves the slot to other rows.
void GatheredModel::leave(Row& row) {
  if (--row.users > 0) return;
  for (const std::size_t i : row.entries()) {
    Entry& entry = entries_[i];
    if (!entry.kept) entry.named.tensor.set_data(entry.elsewhere);
    entry.storage.set_data_ptr_noswap(at::DataPtr(nullptr, row.slot->memory.device()));
  }
}

void GatheredModel::request(std::size_t block) {
  for (const std::size_t i : rows_of_block_[block]) {
    Row& row = rows_[i];
    if (row.slot->holds != &row) gather(row);
  }
}

// ------------------------------------------------------------------ the model as a whole

std::size_t GatheredModel::first_trained_block() const {
  std::size_t first = rows_of_block_.size();
  for (const Entry& entry : entries_) {
    if (entry.named.tensor.requires_grad()) first = std::min(first, entry.first_block);
  }
  return first;
}

std::vector<PlacedRow> GatheredModel::rows_of(const std::vector<NamedTensor>& parameters) const {
  std::unordered_map<const at::TensorImpl*, std::size_t> wanted;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    wanted.emplace(parameters[i].tensor.unsafeGetTensorImpl(), i);
  std::vector<PlacedRow> result;
  for (const Row& row : rows_) {
    const ShardPlan& plan = row.shards.row.plan;
    PlacedRow some{.row = {.parameters = {}, .plan = {.share = plan.share, .offsets = {}, .shards = {}}},
                   .share = row.shards.share};
    some.row.plan.shards.resize(plan.shards.size());
    for (std::size_t k = 0; k < row.entries().size(); ++k) {
      const auto found = wanted.find(entries_[row.entries()[k]].named.tensor.unsafeGetTensorImpl());
      if (found == wanted.end()) continue;
      some.row.parameters.push_back(found->second);
      some.row.plan.offsets.push_back(plan.offsets[k]);
      for (std::size_t rank = 0; rank < plan.shards.size(); ++rank)
        some.row.plan.shards[rank].push_back(plan.shards[rank][k]);
    }
    if (!some.row.parameters.empty()) result.push_back(std::move(some));
  }
  return result;
}

void GatheredModel::keep_whole(const std::set<std::string>& names) {
  const at::NoGradGuard no_grad;
  for (Row& row : rows_) {
    const auto changes = [&](std::size_t i) {
      return names.contains(entries_[i].named.name) != entries_[i].kept;
    };
    if (std::ranges::none_of(row.entries(), changes)) continue;
    const Held held(*this, row);
    for (const std::size_t i : row.entries()) {
      if (!changes(i)) continue;
      Entry& entry = entries_[i];
      entry.kept = !entry.kept;
      if (entry.kept) {
        entry.named.tensor.set_data(entry.whole.clone());
      } else {
        store_part(entry);
        // `held` has the values of before; nobody reads them until the row is gathered again.
        entry.named.tensor.set_data(entry.elsewhere);
      }
    }
  }
}

void GatheredModel::visit(const std::function<void(const NamedTensor&)>& visit) {
  const at::NoGradGuard no_grad;
  std::vector<const Entry*> by_name;
  for (const Entry& entry : entries_) by_name.push_back(&entry);
  std::ranges::sort(by_name, [](const Entry* a, const Entry* b) { return a->named.name < b->named.name; });
  std::optional<Held> held;
  std::optional<std::size_t> row;
  for (const Entry* entry : by_name) {
    if (entry->row && !entry->kept && entry->row != row) {
      held.reset();
      held.emplace(*this, rows_[*entry->row]);
      row = entry->row;
    }
    visit({entry->named.name, entry->named.tensor.detach()});
  }
}

std::vector<NamedTensor> GatheredModel::deal_out() {
  const at::NoGradGuard no_grad;
  std::vector<NamedTensor> dealt;
  for (const Entry& entry : entries_) {
    if (!entry.row || entry.kept) dealt.push_back(entry.named);
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    Row& row = rows_[r];
    const Held held(*this, row);
    if (static_cast<int>(r % static_cast<std::size_t>(group_.size())) != group_.rank()) continue;
    for (const std::size_t i : row.entries()) {
      const Entry& entry = entries_[i];
      if (entry.kept) continue;
      dealt.push_back({entry.named.name, entry.whole.clone()});
    }
  }
  return dealt;
}

void GatheredModel::restore() {
  std::set<std::string> all;
  for (const Entry& entry : entries_) all.insert(entry.named.name);
  keep_whole(all);
}

std::vector<Piece> GatheredModel::give_back_shards() {
  std::set<std::string> whole;
  for (const Entry& entry : entries_) {
    // A tensor of one element cannot be hollow.
    if (entry.kept || entry.named.tensor.numel() == 1) whole.insert(entry.named.name);
  }
  keep_whole(whole);
  std::vector<Piece> shards;
  for (const Entry& entry : entries_) {
    if (entry.row && !entry.kept)
      shards.push_back(rows_[*entry.row].shards.part(entry.place, entry.named, group_.rank()));
  }
  return shards;
}

SlotPlan plan_slots(const std::vector<DividedRow>& rows, const std::vector<NamedTensor>& parameters,
                    const Blocks& blocks) {
  SlotPlan plan{.rows_of_block = rows_of_blocks(rows, parameters, blocks),
                .slot_of_row = std::vector<std::size_t>(rows.size()),
                .largest = {}};
  const auto& of_blocks = plan.rows_of_block;
  std::vector<std::set<std::size_t>> together(rows.size());  // rows that are in memory beside a row
  for (std::size_t block = 0; block < of_blocks.size(); ++block) {
    std::set<std::size_t> both(of_blocks[block].begin(), of_blocks[block].end());
    if (block + 1 < of_blocks.size()) both.insert(of_blocks[block + 1].begin(), of_blocks[block + 1].end());
    for (const std::size_t row : both) together[row].insert(both.begin(), both.end());
  }
  std::vector<std::vector<std::size_t>> of_slot;
  const auto first_of = [&](std::size_t row) -> const at::Tensor& {
    return parameters[rows[row].parameters.front()].tensor;
  };
  const auto is_free = [&](std::size_t slot, std::size_t row) {
    const at::Tensor &own = first_of(row), &other = first_of(plan.largest[slot]);
    return own.scalar_type() == other.scalar_type() && own.device() == other.device() &&
           std::ranges::none_of(of_slot[slot],
                                [&](std::size_t beside) { return together[row].contains(beside); });
  };
  const auto growth = [&](std::size_t slot, std::size_t row) {
    return std::max<std::int64_t>(0, rows[row].elements() - rows[plan.largest[slot]].elements());
  };
  std::set<std::size_t> planned;
  for (const std::vector<std::size_t>& of_block : of_blocks) {
    for (const std::size_t row : of_block) {
      if (!planned.insert(row).second) continue;
      std::optional<std::size_t> best;  // the free slot that grows least
      for (std::size_t slot = 0; slot < of_slot.size(); ++slot) {
        if (is_free(slot, row) && (!best || growth(slot, row) < growth(*best, row))) best = slot;
      }
      if (!best) {
        best = of_slot.size();
        of_slot.emplace_back();
        plan.largest.push_back(row);
      }
      of_slot[*best].push_back(row);
      if (growth(*best, row) > 0) plan.largest[*best] = row;
      plan.slot_of_row[row] = *best;
    }
  }
  return plan;
}

std::int64_t slot_bytes(const Trainable& module, const Blocks& blocks, int ranks, std::int64_t row_bytes) {
  const std::vector<NamedTensor> parameters = module.all_parameters();
  const std::vector<DividedRow> rows = divided_rows(parameters, ranks, row_bytes);
  std::int64_t bytes = 0;
  for (const std::size_t row : plan_slots(rows, parameters, blocks).largest) {
    const at::Tensor& first = parameters[rows[row].parameters.front()].tensor;
    bytes += rows[row].elements() * static_cast<std::int64_t>(first.element_size());
  }
  return bytes;
}

}  // namespace cxtrain
