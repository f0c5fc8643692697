#include "cxtrain/cluster/process_state.h"

#include <fstream>

namespace cxtrain {
namespace {

std::string first_line_of(int process, const char* name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/" + name);
  std::string line;
  std::getline(file, line);
  return line;
}

/// "R", "S", "D", "T", ... (proc(5)); a blank: there is no such process.
char state_letter(int process) {
  const std::string line = first_line_of(process, "stat");
  const std::size_t after_name = line.rfind(')');
  return after_name != std::string::npos && after_name + 2 < line.size() ? line[after_name + 2] : ' ';
}

const char* meaning_of_state(char letter) {
  switch (letter) {
    case 'R':
      return "it runs";
    case 'S':
      return "it sleeps";
    case 'D':
      return "it waits for a device or a disk, and cannot be interrupted";
    case 'T':
      return "it is stopped";
    case 't':
      return "it is stopped by a debugger";
    case 'Z':
      return "it has ended";
    case ' ':
      return "there is no such process";
    default:
      return "in another state";
  }
}

}  // namespace

bool is_stopped(int process) {
  const char letter = state_letter(process);
  return letter == 'T' || letter == 't';
}

std::string state_of_process(int process) {
  const char letter = state_letter(process);
  std::string text = meaning_of_state(letter);
  if (letter == ' ') return text;
  text += std::string(" (state ") + letter;
  const std::string place = first_line_of(process, "wchan"), call = first_line_of(process, "syscall");
  if (!place.empty() && place != "0") text += ", in the kernel's " + place;
  if (!call.empty()) text += ", system call " + call;
  return text + ")";
}

}  // namespace cxtrain
