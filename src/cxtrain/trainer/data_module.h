#pragma once

#include <cstdint>
#include <string_view>

#include "cxtrain/config/options.h"
#include "cxtrain/data/dataset.h"

namespace cxtrain {

/// The data of a run, Lightning's way: one object that knows every split. `setup` is called once on every
/// rank before any other, and throws DataError for a file that is missing or damaged.
class DataModule {
 public:
  static constexpr std::string_view kKind = "data";
  virtual ~DataModule() = default;

  virtual void setup(const DataOptions& options) = 0;

  /// A spec without a dataset means that the stage has no data.
  virtual DataLoaderSpec train_dataloader() = 0;
  virtual DataLoaderSpec val_dataloader() { return {}; }
  virtual DataLoaderSpec test_dataloader() { return {}; }
  virtual DataLoaderSpec predict_dataloader() { return {}; }
};

}  // namespace cxtrain
