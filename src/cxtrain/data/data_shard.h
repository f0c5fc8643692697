#pragma once

namespace cxtrain {

/// The part of every global batch that one reader takes: number `index` of `count`.
struct DataShard {
  int index = 0;
  int count = 1;
};

}  // namespace cxtrain
