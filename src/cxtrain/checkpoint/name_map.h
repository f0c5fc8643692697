#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cxtrain {

/// Maps the names of stored tensors to the names of a model by replacing prefixes.
///
/// A rule is a pair (FROM, TO). The first rule with a FROM that begins the name replaces FROM by TO; later
/// rules do nothing to this name. Names that no rule matches stay as they are. An empty TO removes a prefix;
/// an empty FROM matches every name and adds a prefix. Rules are texts, not parts between dots: write the
/// dot, as in "model.=" or "encoder.=net.encoder.".
class NameMap {
 public:
  using Rule = std::pair<std::string, std::string>;

  /// Changes nothing.
  NameMap() = default;
  NameMap(std::initializer_list<Rule> rules) : rules_(rules) {}

  /// Reads "FROM=TO[,FROM=TO...]"; an empty text has no rules. Throws CheckpointError for a part without "=",
  /// or with more than one, and for a rule without effect because of an earlier rule.
  static NameMap parse(std::string_view text);

  std::string operator()(std::string_view name) const;

 private:
  std::vector<Rule> rules_;
};

}  // namespace cxtrain
