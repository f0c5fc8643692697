#include "cxtrain/cli/yaml_config.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <map>
#include <sstream>

namespace cxtrain {
namespace {

constexpr std::size_t kDeepest = 32;       // a configuration has four levels
constexpr std::size_t kMaxNodes = 20'000;  // and some hundred values

/// Thrown out of yaml-cpp's parser, to end it.
struct Refused {
  YAML::Mark where;
  std::string message, hint;
};

/// Counts what the parser reports, without keeping it.
class Counter final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      throw Refused{mark, "a second document begins here", "put all options into one, or into several files"};
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add(mark, anchor, 1); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string&) override {
    add(mark, anchor, 1);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto size = sizes_.find(anchor);
    if (size == sizes_.end())
      throw Refused{mark, "an alias refers to a value that contains the alias", "write the value out"};
    add(mark, 0, size->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YAML::Mark where;
    YAML::anchor_t anchor;
    std::size_t nodes;
  };

  void open(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (open_.size() == kDeepest) {
      throw Refused{mark, "is nested deeper than " + std::to_string(kDeepest) + " levels",
                    "a configuration has maps of options, and lists of plain values"};
    }
    open_.push_back({mark, anchor, 1});
  }

  void close() {
    const Open closed = open_.back();
    open_.pop_back();
    add(closed.where, closed.anchor, closed.nodes);
  }

  void add(const YAML::Mark& mark, YAML::anchor_t anchor, std::size_t nodes) {
    if (anchor != 0) sizes_[anchor] = nodes;
    if (open_.empty()) return;
    open_.back().nodes += nodes;
    if (open_.back().nodes > kMaxNodes) {
      throw Refused{mark,
                    "by here there are more than " + std::to_string(kMaxNodes) +
                        " values, aliases followed; a configuration has fewer",
                    "check which file it is"};
    }
  }

  int documents_ = 0;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, std::size_t> sizes_;  ///< of finished nodes that have an anchor
};

}  // namespace

void check_yaml_shape(const std::string& text, const std::string& file, std::vector<Problem>& problems) {
  const auto place = [&](const YAML::Mark& mark) { return file + " line " + std::to_string(mark.line + 1); };
  std::istringstream stream(text);
  Counter counter;
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(counter)) {
    }
  } catch (const Refused& refused) {
    problems.push_back({place(refused.where), refused.message, refused.hint, MessageCode::invalid_file});
  } catch (const YAML::Exception& error) {
    problems.push_back({place(error.mark), "no valid YAML: " + error.msg, "", MessageCode::invalid_file});
  }
}

}  // namespace cxtrain
