#include "cxtrain/base/error.h"

#include <cstdlib>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>
#include "cxtrain/base/problems.h"

namespace cxtrain {
namespace {

std::string describe(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : first_of(problems)) text += (text.empty() ? "" : "\n") + to_line(problem);
  return text;
}

/// LibTorch's errors end with the frames that they were thrown from.
std::string without_frames(std::string text) {
  const char* wanted = std::getenv("TORCH_SHOW_CPP_STACKTRACES");
  if (wanted != nullptr && std::string_view(wanted) == "1") return text;
  const std::size_t frames = text.find("\nException raised from ");
  if (frames != std::string::npos) text.resize(frames);
  return text;
}

}  // namespace

ConfigError::ConfigError(std::vector<Problem> problems)
    : Error(ExitCode::refused, describe(problems)), problems_(std::move(problems)) {}

std::string message_of(const std::exception& error) {
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return "'" + file->path1().string() + "': " + file->code().message();
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return "out of memory: there is no room for something as large as was asked for (batch size, model and data "
           "decide about it)";
  }
  if (dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return std::string("a size was asked for that no memory can hold (") + error.what() +
           "); batch size, model and data decide about it";
  }
  if (const auto* system = dynamic_cast<const std::system_error*>(&error);
      system != nullptr && system->code() == std::errc::resource_unavailable_try_again) {
    return std::string("a thread cannot be started: ") + error.what() +
           "; ask for fewer workers or devices, or raise the limits (ulimit -u, ulimit -v)";
  }
  return without_frames(error.what());
}

ExitCode code_of(const std::exception& error) {
  if (const auto* own = dynamic_cast<const Error*>(&error)) return own->code();
  const bool about_a_path = dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr;
  return about_a_path ? ExitCode::refused : ExitCode::failure;
}

}  // namespace cxtrain
