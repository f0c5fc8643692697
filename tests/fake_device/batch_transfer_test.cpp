#include "cxtrain/trainer/device_loader.h"

#include <ATen/ATen.h>

#include "cxtrain/data/data_loader.h"
#include "cxtrain/data/idx_dataset.h"
#include "cxtrain/data/tensor_dataset.h"
#include "cxtrain/data/text_dataset.h"
#include "fixture.h"
#include "support/sequences.h"

/// Batches on their way to a device: beside its computing, in order with it, and in memory that is used
/// again.
namespace cxtrain::test {
namespace {

Batch pinned_batch(double value, std::int64_t size = 64) {
  return {.tensors = {at::full({size, 3}, value, at::kFloat).pin_memory(),
                      at::full({size}, static_cast<std::int64_t>(value), at::kLong).pin_memory()},
          .size = size};
}

bool holds(const at::Tensor& tensor, double value) { return tensor.cpu().eq(value).all().item<bool>(); }

/// Trains, as it were: brings a batch, uses it on the main stream, gives it away.
at::Tensor step(BatchTransfer& transfer, double value, std::int64_t size = 64) {
  Batch batch = pinned_batch(value, size);
  transfer.bring(batch);
  return batch[0].mul(2).add(batch[1].unsqueeze(1));
}

}  // namespace

TEST_CASE_METHOD(TwoFakeDevices, "A batch travels while the device still computes", "[transfer]") {
  BatchTransfer transfer(device);
  std::vector<at::Tensor> results;
  for (int i = 0; i < 4; ++i) results.push_back(step(transfer, i));
  hold(main);  // the last step goes on and on
  const HostReads reads;
  Batch batch = pinned_batch(4);
  transfer.bring(batch);
  CHECK(transfer.stream().query());  // it is there
  CHECK(reads.count() == 0);
  release(main);
  CHECK(holds(batch[0], 4));
  for (int i = 0; i < 4; ++i) CHECK(holds(results[static_cast<std::size_t>(i)], 3 * i));
}

TEST_CASE_METHOD(TwoFakeDevices, "The memory of batches is used again, once nobody holds it", "[transfer]") {
  const std::size_t before = fake_allocated_bytes(device);
  {
    BatchTransfer transfer(device);
    for (int i = 0; i < 3; ++i) step(transfer, i);
    const std::size_t two = fake_allocated_bytes(device) - before;
    CHECK(two > 0);
    for (int i = 0; i < 20; ++i) step(transfer, i, /*size=*/i % 3 == 0 ? 16 : 64);
    CHECK(fake_allocated_bytes(device) - before == two);

    Batch kept = pinned_batch(42);
    transfer.bring(kept);
    for (int i = 0; i < 5; ++i) step(transfer, i);
    CHECK(holds(kept[0], 42));
    CHECK(holds(kept[1], 42));
    for (int i = 0; i < 3; ++i) step(transfer, i, /*size=*/256);  // a larger one
  }
  CHECK(fake_allocated_bytes(device) == before);
}

TEST_CASE_METHOD(TwoFakeDevices, "Objects travel with the tensors, in the same memory", "[transfer]") {
  const std::size_t before = fake_allocated_bytes(device);
  BatchTransfer transfer(device);
  const auto sent =
      std::make_shared<Sequences>(at::full({5, 6}, 3.0).pin_memory(), at::tensor({2, 3}, at::kLong));
  std::size_t used = 0;
  for (int i = 0; i < 6; ++i) {
    Batch batch = pinned_batch(i);
    batch.objects = {{sent, "text"}};
    transfer.bring(batch);
    const auto& arrived = batch.object<Sequences>("text");
    CHECK(arrived.values.device() == device);
    CHECK(arrived.lengths.device() == device);
    CHECK(holds(arrived.values, 3));
    CHECK(at::equal(arrived.lengths.cpu(), sent->lengths));
    CHECK(holds(batch[0], i));
    if (i == 2) used = fake_allocated_bytes(device);
  }
  CHECK(used > before);
  CHECK(fake_allocated_bytes(device) == used);
  CHECK(sent->values.is_cpu());  // a dataset may keep it
}

TEST_CASE_METHOD(TwoFakeDevices, "A loader pins the tensors of objects", "[transfer]") {
  const auto data = std::make_shared<SequenceData<>>(8);
  DataLoader loader({.dataset = data}, ShardedSampler(8, {}, {.batch_size = 4}),
                    {.num_workers = 1, .to_device = true});
  loader.start_epoch(0);
  Batch batch;
  REQUIRE(loader.next(batch));
  CHECK(batch.object<Sequences>().values.is_pinned());
  CHECK(batch.object<Sequences>().lengths.is_pinned());
}

TEST_CASE_METHOD(TwoFakeDevices, "What arrives is what was sent, in any layout and of any type",
                 "[transfer]") {
  BatchTransfer transfer(device);
  const at::Tensor images = at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor strange = at::rand({6, 8}).slice(1, 0, 8, 2);
  Batch batch{.tensors = {at::full({3}, true, at::kBool), images, at::Tensor(), strange, at::empty({0, 4}),
                          at::full({}, 2.5, at::kDouble), at::ones({2}, device)},
              .size = 2};
  const std::vector<at::Tensor> sent = batch.tensors;
  transfer.bring(batch);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    CAPTURE(i);
    if (!sent[i].defined()) {
      CHECK_FALSE(batch.tensors[i].defined());
      continue;
    }
    CHECK(batch[i].device() == device);
    CHECK(batch[i].scalar_type() == sent[i].scalar_type());
    CHECK(batch[i].cpu().equal(sent[i].cpu()));
  }
  CHECK(batch[1].is_contiguous(at::MemoryFormat::ChannelsLast));
  batch[1].mul_(2);  // it is the step's own
  CHECK(batch[1].cpu().equal(images * 2));
}

TEST_CASE_METHOD(TwoFakeDevices, "Loaders collate straight into page-locked memory, images as bytes",
                 "[transfer]") {
  const auto tensors = std::make_shared<TensorDataset>(std::vector{at::rand({40, 3})});
  const auto images =
      std::make_shared<IdxDataset>(at::randint(256, {40, 5, 4}, at::kByte), at::randint(10, {40}, at::kLong));
  const auto text = std::make_shared<TextDataset>(std::make_shared<const std::string>(60, 'a'), 0, 60, 8, 1);
  const bool shuffle = GENERATE(false, true);
  for (const std::shared_ptr<const Dataset>& data :
       std::initializer_list<std::shared_ptr<const Dataset>>{tensors, images, text}) {
    Batch collated;
    const std::vector<std::int64_t> indices =
        shuffle ? std::vector<std::int64_t>{7, 3, 5} : std::vector<std::int64_t>{3, 4, 5};
    data->collate(indices, {.pin_memory = true}, collated);
    for (const at::Tensor& tensor : collated.tensors) CHECK(tensor.is_pinned());
  }

  const DataLoaderSpec spec{.dataset = images, .batch_size = 8};
  DataLoader here(spec, ShardedSampler(40, {}, {.batch_size = 8, .shuffle = shuffle})),
      there(spec, ShardedSampler(40, {}, {.batch_size = 8, .shuffle = shuffle}),
            {.num_workers = 2, .to_device = true});
  BatchTransfer transfer(device);
  here.start_epoch(0);
  there.start_epoch(0);
  for (Batch on_host, on_device; here.next(on_host);) {
    REQUIRE(there.next(on_device));
    CHECK(on_device[0].scalar_type() == at::kByte);
    transfer.bring(on_device);
    there.finish(on_device);
    CHECK(on_device[0].cpu().equal(on_host[0]));
    CHECK(on_device[1].cpu().equal(on_host[1]));
    on_device.tensors.clear();
  }
}

}  // namespace cxtrain::test
