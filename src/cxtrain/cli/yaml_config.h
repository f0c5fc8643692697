#pragma once

#include <string>
#include <vector>

#include "cxtrain/cli/setting.h"

namespace cxtrain {

/// The settings of a YAML file: nested maps flatten to dotted keys, `model: gpt` and `model: {name: gpt}` are
/// the same, a list becomes the text "[a, b]" (for a repeatable option: several settings). What is no YAML,
/// no map, or has another shape than a configuration (yaml_shape.h) is a problem that names the file and the
/// line.
std::vector<Setting> read_yaml(const std::string& text, const std::string& file,
                               std::vector<Problem>& problems);

/// The options as YAML that reads back as the same options: the `config.yaml` of a run and what
/// `--print_config` shows. Leaves out the subcommand and what belongs to `plan` and `info` only.
std::string to_yaml(const Options& options);

}  // namespace cxtrain
