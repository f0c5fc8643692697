#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cxtrain/base/clock.h"
#include "cxtrain/cluster/world.h"
#include "cxtrain/data/dataset.h"

namespace cxtrain {

/// What tells one dataset from another without reading all of it: the number of samples, and the content of
/// some. Where the files lie and how many ranks read them makes no difference.
struct DataFingerprint {
  std::int64_t samples = 0;
  /// Dtypes and shapes of the tensors of one: "Float [64], Long []"; empty: unknown.
  std::string sample = {};
  /// XXH3 of the first 1, 2, 4, ... samples of those that are looked at, 64 at most, which lie evenly over
  /// the dataset. Shorter where reading samples takes long; empty where they are others each time.
  std::vector<std::string> content = {};

  bool operator==(const DataFingerprint&) const = default;
};

/// Reads samples for a few milliseconds (one of them twice, however long that takes), in an epoch 0 with the
/// seed 0. What that draws of the processor's random numbers is put back. A dataset that throws meanwhile, or
/// whose samples are others the second time, is known by its number of samples alone.
DataFingerprint fingerprint_of(const Dataset& dataset, const Clock& clock);

/// "1437 samples; Float [64], Long []; 0f3c... 9a41..."
std::string to_text(const DataFingerprint& fingerprint);
/// Nothing for a text that is none.
std::optional<DataFingerprint> data_fingerprint_from(std::string_view text);

/// What differs, as far as both know it: "1437 samples, and now 1000". Empty where nothing does.
std::string difference(const DataFingerprint& saved, const DataFingerprint& now);

/// Throws an AgreedError (refused) where the data of a training that goes on are others than it had. `saved`:
/// the text of a fingerprint; what is none says nothing. `own`: of `dataset`. Rank 0's count. Collective.
void require_data_of_checkpoint(World& world, const std::string& saved, const std::string& own,
                                const Dataset& dataset);

}  // namespace cxtrain
