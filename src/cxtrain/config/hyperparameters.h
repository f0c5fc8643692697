#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>

#include "cxtrain/config/fields.h"

namespace cxtrain {

/// Hyperparameters by name, with their values as a user types them.
using Hyperparameters = std::map<std::string, std::string>;

/// Returns the value for programs that read it: a bool, a number or a text.
std::variant<bool, double, std::string> typed_value(const std::string& text);

/// Returns YAML, a line for each hyperparameter. `indent` begins each line.
std::string to_yaml(const Hyperparameters& values, std::string_view indent = "");

/// Base of Module and DataModule, Lightning's class of this name: loggers, `config.yaml` and checkpoints get
/// the hyperparameters.
class HyperparametersMixin {
 public:
  /// Adds the fields of a struct of arguments (config/field.h) to `hparams()`. Call it in the constructor.
  /// The registry calls it for the models and data modules that it makes. Throws ConfigError for values
  /// outside of the limits of their fields.
  ///
  ///     explicit Classifier(const Args& args) : args(args) { save_hyperparameters(args); }
  template <class Args>
  void save_hyperparameters(Args args) {
    require_fields(args);
    args.fields([this](const char* name, const auto& value, const auto&...) {
      hparams_.insert_or_assign(name, field::text_of(value).value_or("auto"));
    });
  }
  const Hyperparameters& hparams() const { return hparams_; }

 private:
  Hyperparameters hparams_;
};

}  // namespace cxtrain
