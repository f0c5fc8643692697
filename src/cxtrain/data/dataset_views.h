#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cxtrain/data/dataset.h"

/// Datasets that are made of others. They read when they are read, and copy nothing. Each keeps the finish of
/// a batch (`on_after_batch_transfer`) of the dataset below.
namespace cxtrain {

using DatasetPtr = std::shared_ptr<const Dataset>;

/// Changes each sample by a function, which several threads call at once.
///
///     train = cxtrain::map(train, [](cxtrain::Batch sample, cxtrain::SampleRandom& random) {
///       if (random.flip()) sample.tensors[0] = sample[0].flip(2);
///       return sample;
///     });
DatasetPtr map(DatasetPtr dataset, std::function<Batch(Batch sample, SampleRandom& random)> change);

/// The samples of all these datasets, one after the other. At least one. The first dataset finishes all
/// batches (`on_after_batch_transfer`).
DatasetPtr concat(std::vector<DatasetPtr> datasets);

/// The samples at these indices, in this order. Throws DataError for an index that the dataset does not have.
DatasetPtr subset(DatasetPtr dataset, std::vector<std::int64_t> indices);

/// The dataset N times in each epoch. Each time counts as an epoch of the dataset: augmentation differs.
DatasetPtr repeat(DatasetPtr dataset, std::int64_t times);

/// Cuts a dataset into parts of these shares, by one permutation of its samples. The shares sum to 1; what
/// rounding leaves goes to the first parts, as torch's random_split does. Throws DataError.
std::vector<DatasetPtr> random_split(const DatasetPtr& dataset, const std::vector<double>& shares,
                                     std::uint64_t seed = 42);

}  // namespace cxtrain
