#include "cxtrain/cluster/process_state.h"

#include <array>
#include <utility>

#include "cxtrain/base/kernel_files.h"

namespace cxtrain {
namespace {

std::string text_of_process(int process, const char* name) {
  return kernel_text("/proc/" + std::to_string(process) + "/" + name);
}

const char* meaning_of_state(char letter) {
  constexpr std::array<std::pair<char, const char*>, 7> kMeanings{
      {{'R', "it runs"},
       {'S', "it sleeps"},
       {'D', "it waits for a device or a disk, and cannot be interrupted"},
       {'T', "it is stopped"},
       {'t', "it is stopped by a debugger"},
       {'Z', "it has ended"},
       {' ', "there is no such process"}}};
  for (const auto& [known, meaning] : kMeanings) {
    if (known == letter) return meaning;
  }
  return "in another state";
}

}  // namespace

char state_letter(int process) {
  const std::string line = text_of_process(process, "stat");
  const std::size_t after_name = line.rfind(')');
  return after_name != std::string::npos && after_name + 2 < line.size() ? line[after_name + 2] : ' ';
}

bool is_stopped(int process) {
  const char letter = state_letter(process);
  return letter == 'T' || letter == 't';
}

std::string state_of_process(int process) {
  const char letter = state_letter(process);
  std::string text = meaning_of_state(letter);
  if (letter == ' ') return text;
  text += std::string(" (state ") + letter;
  const std::string place = text_of_process(process, "wchan"), call = text_of_process(process, "syscall");
  if (!place.empty() && place != "0") text += ", in the kernel's " + place;
  if (!call.empty()) text += ", system call " + call;
  return text + ")";
}

}  // namespace cxtrain
