#include "cxtrain/data/dataset.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <typeinfo>

#include "cxtrain/base/class_name.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/text.h"
#include "cxtrain/base/transformed.h"

namespace cxtrain {
namespace {

std::string class_of(const Dataset& dataset) { return class_name(typeid(dataset)); }

[[noreturn]] void refuse_batch(const Dataset& dataset, std::int64_t samples, const std::string& what) {
  throw DataError("collate of " + class_of(dataset) + " was asked for " + counted(samples, "sample") +
                  ", and " + what);
}

void require_samples(const Batch::Object& object, std::int64_t samples) {
  if (!object.value) throw DataError("a batch has an object that is null");
  if (object.value->size() == samples) return;
  throw DataError("an object of class " + class_of(*object.value) + " has " +
                  std::to_string(object.value->size()) + " samples in a batch of " + std::to_string(samples) +
                  "; make its collate join all samples, and its size count them");
}

/// The dataset whose `get` reads a batch of one sample. A class that defines neither method would go round in
/// a circle.
thread_local const Dataset* gets_by_collate = nullptr;

std::string name_of_tensor(const Batch& sample, std::size_t i) {
  if (!sample.names || i >= sample.names->size()) return "tensor " + std::to_string(i);
  return "'" + (*sample.names)[i] + "'";
}

std::string describe_sample(const Batch& sample) {
  std::ostringstream text;
  for (std::size_t i = 0; i < sample.tensors.size(); ++i) {
    text << (i == 0 ? "" : ", ") << name_of_tensor(sample, i) << " " << sample[i].scalar_type()
         << " of shape " << sample[i].sizes();
  }
  for (const Batch::Object& object : sample.objects) {
    text << (&object == sample.objects.data() && sample.tensors.empty() ? "" : ", ")
         << (object.name.empty() ? "" : "'" + object.name + "' ")
         << (object.value ? class_of(*object.value) : "no object");
  }
  return sample.tensors.empty() && sample.objects.empty() ? "no tensor" : text.str();
}

bool fits(const Batch::Object& a, const Batch::Object& b) {
  if (!a.value || !b.value || a.name != b.name) return false;
  const BatchObject &first = *a.value, &second = *b.value;
  return typeid(first) == typeid(second);
}

bool fits(const Batch& a, const Batch& b) {
  const bool same_names = a.names == b.names || (a.names && b.names && *a.names == *b.names);
  const auto same_objects = std::equal(a.objects.begin(), a.objects.end(), b.objects.begin(), b.objects.end(),
                                       [](const auto& x, const auto& y) { return fits(x, y); });
  return same_names && same_objects &&
         std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const at::Tensor& x, const at::Tensor& y) {
                      return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type();
                    });
}

}  // namespace

Batch Dataset::get(std::int64_t index, SampleRandom& random) const {
  if (gets_by_collate == this)
    throw DataError(class_of(*this) + " defines neither get nor collate: define one of them");
  const Dataset* const before = std::exchange(gets_by_collate, this);
  const auto leave = [before](const Dataset** current) { *current = before; };
  const std::unique_ptr<const Dataset*, decltype(leave)> guard(&gets_by_collate, leave);
  const std::int64_t seed = random.below(std::numeric_limits<std::int64_t>::max());
  return sample_of(*this, index, {.seed = static_cast<std::uint64_t>(seed)});
}

void Dataset::collate(std::span<const std::int64_t> indices, const SampleContext& context,
                      Batch& batch) const {
  const std::vector<Batch> samples = transformed(indices, [&](std::int64_t index) {
    SampleRandom random(context.seed, context.epoch, index, context.layer);
    return get(index, random);
  });
  stack_samples(samples, indices, context, batch);
}

void stack_samples(std::span<const Batch> samples, std::span<const std::int64_t> indices,
                   const SampleContext& context, Batch& batch) {
  batch.tensors.clear();
  batch.objects.clear();
  if (samples.empty()) return;
  for (const Batch& sample : samples) {
    if (fits(sample, samples[0])) continue;
    throw DataError("samples " + std::to_string(indices[0]) + " and " +
                    std::to_string(indices[static_cast<std::size_t>(&sample - samples.data())]) +
                    " cannot be stacked: one has " + describe_sample(samples[0]) + ", the other " +
                    describe_sample(sample) + "; give samples one shape in get, or override collate");
  }
  batch.names = samples[0].names;
  for (std::size_t i = 0; i < samples[0].tensors.size(); ++i) {
    const std::vector<at::Tensor> rows = transformed(samples, [i](const Batch& each) { return each[i]; });
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(samples.size())};
    shape.insert(shape.end(), rows[0].sizes().begin(), rows[0].sizes().end());
    at::Tensor stacked = at::empty(shape, rows[0].options().pinned_memory(context.pin_memory));
    batch.tensors.push_back(at::stack_out(stacked, rows));
  }
  for (std::size_t i = 0; i < samples[0].objects.size(); ++i) {
    const auto objects = transformed(samples, [i](const Batch& each) -> std::shared_ptr<const BatchObject> {
      return each.objects[i].value;
    });
    batch.objects.push_back({objects[0]->collate(objects), samples[0].objects[i].name});
    require_samples(batch.objects.back(), std::ssize(samples));
  }
}

Batch sample_of(const Dataset& dataset, std::int64_t index, const SampleContext& context) {
  Batch batch;
  batch.size = 1;
  dataset.collate(std::span(&index, 1), context, batch);
  for (at::Tensor& tensor : batch.tensors) tensor = tensor.select(0, 0);
  batch.size = 0;
  return batch;
}

void collate_samples(const Dataset& dataset, std::span<const std::int64_t> indices,
                     const SampleContext& context, Batch& batch) {
  const auto samples = static_cast<std::int64_t>(indices.size());
  batch.size = samples;
  batch.names.reset();
  batch.parts.clear();
  batch.objects.clear();
  if (samples == 0) {  // there is nothing to stack
    batch.tensors.clear();
    batch.indices.clear();
    return;
  }
  dataset.collate(indices, context, batch);
  batch.indices.assign(indices.begin(), indices.end());
  if (batch.size != samples)
    refuse_batch(dataset, samples,
                 "has set batch.size to " + std::to_string(batch.size) + "; leave it as it is");
  for (const Batch::Object& object : batch.objects) require_samples(object, samples);
  if (batch.tensors.empty()) {
    if (!batch.objects.empty()) return;
    refuse_batch(dataset, samples, "has made no tensor; fill batch.tensors");
  }
  const at::Tensor& input = batch[0];
  if (!input.defined() || input.dim() == 0 || input.size(0) == samples) return;
  refuse_batch(dataset, samples,
               "dimension 0 of batch[0] is " + std::to_string(input.size(0)) + "; make it count the samples");
}

}  // namespace cxtrain
