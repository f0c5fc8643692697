#include "cxtrain/cli/yaml_config.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <sstream>

#include "cxtrain/base/text.h"
#include "cxtrain/cli/option_table.h"
#include "cxtrain/cli/repeatable_components.h"
#include "cxtrain/config/did_you_mean.h"

namespace cxtrain {
namespace {

class Reader {
 public:
  Reader(const std::string& file, std::vector<Problem>& problems) : file_(file), problems_(problems) {}

  void read_map(const YAML::Node& map, const std::string& prefix) {
    for (const auto& pair : map) {
      if (!pair.first.IsScalar()) {
        refuse(pair.first, "a name is expected before the colon");
      } else if (prefix + pair.first.Scalar() != "hyperparameters") {  // those of a program's own model
        read_value(pair.second, prefix + pair.first.Scalar(), pair.first);
      }
    }
  }

  void refuse(const YAML::Node& where, const std::string& message) {
    problems_.push_back({place(where.Mark()), message, "", MessageCode::invalid_file});
  }

  std::string place(const YAML::Mark& mark) const { return file_ + " line " + std::to_string(mark.line + 1); }

  std::vector<Setting> settings;

 private:
  void read_value(const YAML::Node& value, const std::string& key, const YAML::Node& where) {
    const std::string written = place(where.Mark()) + ": " + key;
    const OptionEntry* entry = find_option(key);
    if (value.IsMap()) {
      read_map(value, owner_of_init_args(key).value_or(key) + ".");
    } else if (value.IsNull() && entry == nullptr && is_section(key)) {
      return;  // `trainer:` with nothing below it
    } else if (value.IsNull()) {
      settings.push_back({key, std::nullopt, written});
    } else if (value.IsScalar()) {
      settings.push_back({key, value.Scalar(), written});
    } else if (entry == nullptr && is_name_of_repeatable_component(key)) {
      read_several(value, key);
    } else if (entry != nullptr && entry->repeatable) {
      settings.push_back({key, std::nullopt, written});  // the list replaces what came before
      for (const YAML::Node& item : value) settings.push_back({key, scalar(item), written});
    } else if (find_unsupported_argument(key) != nullptr) {
      settings.push_back({key, "", written});  // refused by name, whatever it holds
    } else {
      const auto text_of = [this](const YAML::Node& item) { return scalar(item); };
      settings.push_back({key, "[" + joined(value, ", ", text_of) + "]", written});
    }
  }

  /// Several components of a class: `model_checkpoint: [{monitor: loss}, {every_n_train_steps: 100}]`.
  void read_several(const YAML::Node& list, const std::string& key) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string own_key = i == 0 ? key : key + "#" + std::to_string(i + 1);
      if (list[i].IsSequence())
        refuse(list[i], "a list of components holds their arguments, `{name: value}`");
      else
        read_value(list[i], own_key, list[i]);
    }
  }

  /// LightningCLI's files have the arguments of a component in `init_args`, one level deeper.
  static std::optional<std::string> owner_of_init_args(const std::string& key) {
    for (const ComponentEntry& component : component_table()) {
      if (key == component.key + ".init_args") return component.key;
    }
    return std::nullopt;
  }

  static bool is_section(const std::string& key) {
    const auto table = option_table();
    const auto components = component_table();
    if (is_repeatable_section(key)) return true;
    return std::ranges::any_of(table,
                               [&](const OptionEntry& entry) { return entry.key.starts_with(key + "."); }) ||
           std::ranges::any_of(components,
                               [&](const ComponentEntry& component) { return component.key == key; });
  }

  std::string scalar(const YAML::Node& item) {
    if (item.IsScalar()) return item.Scalar();
    refuse(item, "a list holds plain values only");
    return "";
  }

  const std::string& file_;
  std::vector<Problem>& problems_;
};

class Writer {
 public:
  Writer() {
    out_.SetNullFormat(YAML::LowerNull);
    out_ << YAML::BeginMap;
  }

  void write_table(const Options& options) {
    // A section's options need not stand together in the table.
    std::vector<std::string> sections;
    for (const OptionEntry& entry : option_table()) {
      const std::string section = section_of(entry.key);
      const bool known = std::ranges::find(sections, section) != sections.end();
      if (entry.saved && !known && component_of(section) == nullptr) sections.push_back(section);
    }
    std::ranges::sort(sections, [](const auto& a, const auto& b) { return a.empty() > b.empty(); });
    for (const RepeatableComponents& listed : kRepeatableComponents) {
      if (!(options.*listed.list).empty()) sections.emplace_back(listed.key);
    }
    for (const std::string& section : sections) write_section(section, options);
    for (const ComponentEntry& component : component_table()) {
      if (component.saved) write_component(component, options);
    }
  }

  std::string text() {
    out_ << YAML::EndMap;
    return std::string(out_.c_str()) + "\n";
  }

 private:
  static const ComponentEntry* component_of(const std::string& key) {
    for (const ComponentEntry& component : component_table()) {
      if (component.key == key && component.alias_of.empty()) return &component;
    }
    return nullptr;
  }

  static std::string section_of(const std::string& key) {
    const std::size_t dot = key.find('.');
    return dot == std::string::npos ? "" : key.substr(0, dot);
  }

  void write_section(const std::string& section, const Options& options) {
    if (!section.empty()) out_ << YAML::Key << section << YAML::Value << YAML::BeginMap;
    for (const OptionEntry& entry : option_table()) {
      if (!entry.saved || component_of(entry.key) != nullptr || section_of(entry.key) != section) continue;
      write(section.empty() ? entry.key : entry.key.substr(section.size() + 1), entry, options);
    }
    for (const RepeatableComponents& listed : kRepeatableComponents) {
      if (section == listed.key) write_listed(options.*listed.list);
    }
    if (!section.empty()) out_ << YAML::EndMap;
  }

  void write_listed(const std::vector<NamedOptions>& list) {
    for (const NamedOptions& component : list) {
      out_ << YAML::Key;
      write_text(component.name);
      out_ << YAML::Value;
      if (component.args.empty()) {
        out_ << "true";
      } else {
        out_ << YAML::BeginMap;
        write_arguments(component.args);
        out_ << YAML::EndMap;
      }
    }
  }

  void write_arguments(const std::map<std::string, std::string>& arguments) {
    for (const auto& [name, value] : arguments) {
      out_ << YAML::Key;
      write_text(name);
      out_ << YAML::Value;
      write_text(value);
    }
  }

  void write(const std::string& key, const OptionEntry& entry, const Options& options) {
    out_ << YAML::Key << key << YAML::Value;
    const auto values = entry.write(options);
    if (!values) {
      out_ << YAML::Null;
    } else if (entry.repeatable) {
      out_ << YAML::Flow << YAML::BeginSeq;
      for (const std::string& value : *values) write_text(value);
      out_ << YAML::EndSeq;
    } else {
      write_text(values->front());
    }
  }

  void write_component(const ComponentEntry& component, const Options& const_options) {
    Options options = const_options;  // the table's accessors are for writing, too
    const bool named_here = component.option == component.key;
    if (!named_here && component.args(options).empty()) return;
    out_ << YAML::Key << component.key << YAML::Value << YAML::BeginMap;
    if (named_here) {
      out_ << YAML::Key << "name" << YAML::Value;
      write_text(component.name(options));
    }
    for (const OptionEntry& entry : option_table()) {
      if (entry.key.starts_with(component.key + "."))
        write(entry.key.substr(component.key.size() + 1), entry, options);
    }
    write_arguments(component.args(options));
    out_ << YAML::EndMap;
  }

  void write_text(const std::string& text) {
    // Only these need quotes of ours; the emitter quotes what else YAML itself would misread.
    const bool control = std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
    if (control || text.empty() || text == "null" || text == "~" || text == "Null" || text == "NULL") {
      out_ << YAML::DoubleQuoted << text;
    } else {
      out_ << text;
    }
  }

  YAML::Emitter out_;
};

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

std::vector<Setting> read_yaml(const std::string& text, const std::string& file,
                               std::vector<Problem>& problems) {
  Reader reader(file, problems);
  const std::size_t before = problems.size();
  check_yaml_shape(text, file, problems);
  if (problems.size() > before) return {};
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsMap()) {
      reader.read_map(root, "");
    } else if (!root.IsNull()) {
      reader.refuse(root, "the file is not a map of options (`trainer:`, `model:` ...)");
    }
  } catch (const YAML::Exception& error) {
    problems.push_back(
        {reader.place(error.mark), "invalid YAML: " + error.msg, "", MessageCode::invalid_file});
  }
  return std::move(reader.settings);
}

std::string to_yaml(const Options& options) {
  Writer writer;
  writer.write_table(options);
  return writer.text();
}

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
