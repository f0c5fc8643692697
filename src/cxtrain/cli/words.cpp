#include "cxtrain/cli/words.h"

#include <algorithm>
#include <array>

#include "cxtrain/cli/option_table.h"
#include "cxtrain/config/nearest_name.h"

namespace cxtrain {
namespace {

bool is_subcommand(const std::string& word) {
  const auto known = subcommands();
  return std::find(known.begin(), known.end(), word) != known.end();
}

class Sorter {
 public:
  Sorter(std::span<const char* const> args, std::vector<Problem>& problems)
      : args_(args.begin(), args.end()), problems_(problems) {}

  Words sort() {
    while (next_ < args_.size()) {
      const std::string& word = args_[next_++];
      if (word == "-h") {
        words_.help = true;
      } else if (word.starts_with("--") && word.size() > 2) {
        read_option(word);
      } else if (word.starts_with("-")) {
        problems_.push_back({word, "options start with two hyphens", "see --help"});
      } else {
        read_word(word);
      }
    }
    return std::move(words_);
  }

 private:
  void read_word(const std::string& word) {
    if (!have_subcommand_ && is_subcommand(word)) {
      have_subcommand_ = true;
      words_.subcommand = word;
      return;
    }
    // An option whose hyphens were forgotten, with or without its value: `max_epochs=3`, `max_epochs 3`.
    std::string key = word.substr(0, word.find('='));
    std::replace(key.begin(), key.end(), '-', '_');
    if (find_option(key) != nullptr || find_component_of(key) != nullptr) {
      problems_.push_back({word, "options start with two hyphens", "did you mean --" + word + "?"});
      const bool value = word.find('=') == std::string::npos && next_ < args_.size() &&
                         !args_[next_].starts_with("-") && !is_subcommand(args_[next_]);
      if (value) ++next_;
      return;
    }
    if (have_subcommand_) {
      problems_.push_back(
          {word, "this word belongs to no option", "values follow their option: --key value"});
      return;
    }
    have_subcommand_ = true;
    std::string known;
    for (const std::string& name : subcommands()) known += (known.empty() ? "" : ", ") + name;
    const std::string meant = did_you_mean(word, subcommands());
    problems_.push_back({word, "there is no such subcommand", meant.empty() ? "known are " + known : meant});
  }

  void read_option(const std::string& word) {
    const std::size_t equals = word.find('=');
    std::string key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(key.begin(), key.end(), '-', '_');
    const std::string written = word.substr(0, equals);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = word.substr(equals + 1);

    if (bool* flag = flag_of(key)) {
      *flag = true;
      if (value) problems_.push_back({written, "takes no value, found '" + *value + "'", ""});
      return;
    }
    const OptionEntry* entry = find_option(key);
    const bool optional_value = (entry != nullptr && !entry->bare.empty()) ||
                                find_component_of(key) != nullptr ||
                                key == "hardware";  // `info --hardware` has no file
    if (!value && next_ < args_.size() && takes(args_[next_], optional_value)) value = args_[next_++];
    if (key == "config") {
      if (value) words_.config_files.push_back(*value);
    } else if (value) {
      words_.settings.push_back({key, *value == "null" ? std::nullopt : value, written});
    } else if (optional_value) {
      const bool flag = entry == nullptr || entry->bare.empty();
      words_.settings.push_back({key, key == "hardware" ? "" : flag ? "true" : entry->bare, written});
    } else if (entry == nullptr) {
      words_.settings.push_back({key, "", written});  // unknown: refused by name, a missing value is no news
    }
    if (!value && !optional_value && (entry != nullptr || key == "config")) {
      problems_.push_back(
          {written, "a value is missing", "write " + written + "=" + (entry ? entry->placeholder : "FILE")});
    }
  }

  bool* flag_of(const std::string& key) {
    if (key == "help") return &words_.help;
    if (key == "version") return &words_.version;
    if (key == "print_config") return &words_.print_config;
    return nullptr;
  }

  /// Whether a word is the value of the option before it. Where a value is optional, a subcommand that has
  /// not been named yet is none: `cxtrain_mpi --json plan`.
  bool takes(const std::string& word, bool optional_value) const {
    if (word.starts_with("--") || word == "-h") return false;
    return !(optional_value && !have_subcommand_ && is_subcommand(word));
  }

  std::vector<std::string> args_;
  std::vector<Problem>& problems_;
  std::size_t next_ = 0;
  bool have_subcommand_ = false;
  Words words_;
};

}  // namespace

std::span<const std::string> subcommands() {
  static const std::array<std::string, 6> names{"fit", "validate", "test", "predict", "plan", "info"};
  return names;
}

Words sort_words(std::span<const char* const> args, std::vector<Problem>& problems) {
  return Sorter(args, problems).sort();
}

}  // namespace cxtrain
