#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cxtrain {

/// How the names of stored tensors become the names that a model has: by replacing beginnings.
///
/// Of the rules, which are pairs (FROM, TO), the first one whose FROM a name begins with replaces FROM by TO;
/// later ones do nothing to this name. Names that no rule fits stay as they are. An empty TO takes a prefix
/// away; an empty FROM fits every name, and puts a prefix before it. Rules are texts, not parts between dots:
/// write the dot, as in "model.=" or "encoder.=net.encoder.".
class NameMap {
 public:
  using Rule = std::pair<std::string, std::string>;

  /// Changes nothing.
  NameMap() = default;
  NameMap(std::initializer_list<Rule> rules) : rules_(rules) {}

  /// Reads "FROM=TO[,FROM=TO...]"; an empty text has no rules. Throws CheckpointError for a part without "=",
  /// or with more than one, and for a rule that can never act because of one before it.
  static NameMap parse(std::string_view text);

  std::string operator()(std::string_view name) const;

 private:
  std::vector<Rule> rules_;
};

}  // namespace cxtrain
