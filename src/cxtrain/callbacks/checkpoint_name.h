#pragma once

#include <map>
#include <string>

namespace cxtrain {

/// The name of a checkpoint: `{name}` and `{name:format}` (`{val_loss:.3f}`, `{step:06d}`) in `filename` are
/// filled in from `values`. With `auto_insert_metric_name`, "{epoch}" becomes "epoch=3", else "3"; a name
/// that is not among the values counts as 0. All as Lightning does it. Pure.
std::string checkpoint_name(const std::string& filename, const std::map<std::string, double>& values,
                            bool auto_insert_metric_name);

/// Throws ConfigError for a `filename` that is not of this form, or leads to another folder.
void check_name_template(const std::string& filename);

}  // namespace cxtrain
