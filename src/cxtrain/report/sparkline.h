#pragma once

#include <string>
#include <vector>

#include "cxtrain/base/filesystem.h"
#include "cxtrain/report/curve.h"

namespace cxtrain {

/// A curve in one line of at most `columns` block characters, which are UTF-8: the lowest mean is ▁, the
/// highest █. A wide range of positive values is drawn by its logarithms. Empty where no value is finite.
std::string sparkline(const Curve& curve, int columns);

/// For each of train_loss and val_loss that the run in a folder has logged more than once:
///
///     train_loss  █▆▅▃▂▂▁▁▁▁  2.303 to 0.0421, lowest 0.0398
///
/// no longer than `columns`. Of large files of metrics, parts are read. None where nothing can be read.
std::vector<std::string> sparklines_of_run(Filesystem& files, const std::string& run, int columns);

}  // namespace cxtrain
