#include "cxtrain/base/error.h"

#include <cxxabi.h>

#include <cstdlib>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>
#include <typeinfo>

#include "cxtrain/base/class_name.h"

namespace cxtrain {
namespace {

/// One line without its code, or the number of problems and a line with its code for each.
std::string describe(const std::vector<Problem>& problems) {
  const std::vector<Problem> shown = first_of(problems);
  if (shown.size() == 1) return to_line(shown[0]);
  std::string text = std::to_string(problems.size()) + " problems";
  for (const Problem& problem : shown) text += "\n  " + with_code(to_line(problem), problem.code);
  return text;
}

/// Returns the code of a single problem. Several problems have no common code: each line shows its own.
MessageCode code_of_all(const std::vector<Problem>& problems) {
  return problems.size() == 1 ? problems[0].code : MessageCode::none;
}

/// Whether the text is the name of an option: "max_epochs", "data.batch_size", "trainer.devices".
bool is_key(const std::string& text) {
  return !text.empty() &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == std::string::npos;
}

/// LibTorch's errors end with the frames that they were thrown from.
std::string without_frames(std::string text) {
  const char* wanted = std::getenv("TORCH_SHOW_CPP_STACKTRACES");
  if (wanted != nullptr && std::string_view(wanted) == "1") return text;
  const std::size_t frames = text.find("\nException raised from ");
  if (frames != std::string::npos) text.resize(frames);
  return text;
}

constexpr std::size_t kMaxBytes = 3800;      // all problems together
constexpr std::size_t kMaxTextBytes = 1000;  // each text of a problem

}  // namespace

ConfigError::ConfigError(std::vector<Problem> problems)
    : Error(ExitCode::refused, code_of_all(problems), describe(problems)), problems_(std::move(problems)) {}

std::string message_of(const std::exception& error) {
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return "'" + file->path1().string() + "': " + file->code().message();
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return "out of memory on this rank; reduce --data.batch_size or the model, or start fewer ranks per node";
  }
  if (dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return std::string("a size is larger than any memory (") + error.what() +
           "); reduce --data.batch_size, or sizes of the model or of the data";
  }
  if (const auto* system = dynamic_cast<const std::system_error*>(&error);
      system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    return std::string("a thread cannot be started: ") + error.what() +
           "; use fewer --data.num_workers or --devices, or raise the limits (ulimit -u, ulimit -v)";
  }
  if (dynamic_cast<const std::logic_error*>(&error) != nullptr)
    return class_name(typeid(error)) + ": " + error.what();
  return without_frames(error.what());
}

std::string message_of_other_exception() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  return "an exception of type " + (type != nullptr ? class_name(*type) : "unknown") +
         " was thrown; throw a std::exception, which has a message";
}

std::string printed(const std::exception& error) {
  return with_code(message_of(error), message_code_of(error));
}

MessageCode message_code_of(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return own->message_code();
  if (dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr)
    return MessageCode::file_failed;
  const bool too_large = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         dynamic_cast<const std::length_error*>(&error) != nullptr;
  return too_large ? MessageCode::out_of_memory : MessageCode::none;
}

ExitCode code_of(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return own->code();
  const bool about_a_path = dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr;
  return about_a_path ? ExitCode::refused : ExitCode::failure;
}

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  const std::string gap = " ... ";
  const std::size_t kept = most - gap.size(), begin = kept * 3 / 4;
  return text.substr(0, begin) + gap + text.substr(text.size() - (kept - begin));
}

namespace {

/// The number of bytes of the UTF-8 character that `text` begins with; 0: `text` does not begin with one.
std::size_t bytes_of_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = first < 0x80   ? 1
                            : first < 0xc2 ? 0
                            : first < 0xe0 ? 2
                            : first < 0xf0 ? 3
                            : first < 0xf5 ? 4
                                           : 0;
  if (bytes > text.size()) return 0;
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return bytes;
}

/// U+0000 to U+001F, U+007F, and U+0080 to U+009F, which are two bytes.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t bytes = bytes_of_character(text);
    if (bytes == 0 || is_control(text.substr(0, bytes)))
      result += '?';
    else
      result += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

std::vector<Problem> first_of(const std::vector<Problem>& problems) {
  std::vector<Problem> told;
  std::size_t bytes = 0;
  for (const Problem& problem : problems) {
    Problem next{shortened(problem.option, kMaxTextBytes / 4), shortened(problem.message, kMaxTextBytes),
                 shortened(problem.hint, kMaxTextBytes), problem.code};
    bytes += to_line(next).size() + 1;
    if (told.size() == kMaxProblems || (bytes > kMaxBytes && !told.empty())) {
      told.push_back(
          {"", "and " + std::to_string(problems.size() - told.size()) + " more", "", MessageCode::none});
      break;
    }
    told.push_back(std::move(next));
  }
  return told;
}

std::string to_line(const Problem& problem) {
  std::string option = problem.option;
  if (is_key(option)) option = "--" + option.substr(option.starts_with("trainer.") ? 8 : 0);
  return (option.empty() ? "" : option + ": ") + problem.message +
         (problem.hint.empty() ? "" : " (" + problem.hint + ")");
}

std::string with_code(std::string text, MessageCode code) {
  if (code != MessageCode::none) text.append(" [").append(name_of(code)).append("]");
  return text;
}

}  // namespace cxtrain
