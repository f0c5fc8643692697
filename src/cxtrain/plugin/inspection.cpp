#include "cxtrain/plugin/inspection.h"

#include <elf.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <vector>

#include "cxtrain/base/command.h"
#include "cxtrain/base/error.h"
#include "cxtrain/base/file_descriptor.h"

namespace cxtrain {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#elif defined(__powerpc64__)
constexpr Elf64_Half kMachine = EM_PPC64;
#else
constexpr Elf64_Half kMachine = EM_NONE;  // not checked
#endif

bool lies_within(std::uint64_t offset, std::uint64_t bytes, std::uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

bool read_at(int file, void* to, std::size_t bytes, std::uint64_t offset) {
  return pread(file, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

std::string cut_short(const char* what) {
  return std::string("is damaged or cut short: its ") + what + " would lie beyond its end";
}

std::string check_header(const Elf64_Ehdr& header, std::uint64_t size) {
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "is not a shared library (not an ELF file)";
  constexpr unsigned char kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  const bool machine = kMachine == EM_NONE || header.e_machine == kMachine;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != kOrder || !machine) {
    return "is a file for another kind of machine, or damaged";
  }
  if (header.e_type != ET_DYN) return "is not a shared library (another kind of ELF file)";
  if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum == 0)
    return "is damaged: it has no segments";
  if (!lies_within(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr), size)) {
    return cut_short("table of segments");
  }
  // The loader does not need sections; a file that was cut short is known by them all the same.
  const std::uint64_t sections = std::uint64_t{header.e_shnum} * header.e_shentsize;
  if (header.e_shoff != 0 && !lies_within(header.e_shoff, sections, size))
    return cut_short("table of sections");
  return {};
}

std::string check_segments(const std::vector<Elf64_Phdr>& segments, std::uint64_t size) {
  bool loads = false, dynamic = false;
  for (const Elf64_Phdr& segment : segments) {
    loads = loads || segment.p_type == PT_LOAD;
    dynamic = dynamic || segment.p_type == PT_DYNAMIC;
    const bool in_file = segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC ||
                         segment.p_type == PT_NOTE || segment.p_type == PT_GNU_EH_FRAME;
    if (in_file && !lies_within(segment.p_offset, segment.p_filesz, size)) return cut_short("segment");
    if (segment.p_type == PT_LOAD && segment.p_filesz > segment.p_memsz) {
      return "is damaged: a segment is larger in the file than in memory";
    }
  }
  return loads && dynamic ? std::string() : "is damaged: it lacks the segments of a shared library";
}

constexpr int kPatience = 60;               // seconds
constexpr char kDone = 'd', kThrown = 't';  // the latter: then ChildFailure::thrown and ::code

/// A crash here is an answer: no core file, no report of somebody's handler.
void become_quiet() {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTERM, SIGINT}) {
    std::signal(signal, SIG_DFL);
  }
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const FileDescriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) return;
  dup2(nothing.get(), STDOUT_FILENO);
  dup2(nothing.get(), STDERR_FILENO);
}

/// A library with a damaged byte may write into the heap while it is loaded, which shows when memory is next
/// asked for: here, rather than in the program.
void use_heap() {
  constexpr std::size_t kStep = 16, kMaxBytes = 8192;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<char[]>> blocks;
    for (std::size_t size = kStep; size <= kMaxBytes; size += kStep)
      blocks.push_back(std::make_unique<char[]>(size));
  }
  malloc_trim(0);
}

using Thrown = ChildFailure::Thrown;

std::string answer_of(Thrown thrown, MessageCode code, const std::string& message) {
  return std::string{kThrown, static_cast<char>(thrown), static_cast<char>(code)} + message;
}

/// Runs `work`, and returns the answer of a copy of this process: `work` has ended, or what `work` has
/// thrown.
std::string told_of(const std::function<void()>& work) {
  become_quiet();
  try {
    work();
    use_heap();
    return std::string(1, kDone);
  } catch (const std::exception& error) {
    const bool own = dynamic_cast<const PluginError*>(&error) != nullptr;
    return answer_of(own ? Thrown::plugin_error : Thrown::other, message_code_of(error), message_of(error));
  } catch (...) {
    return answer_of(Thrown::other, MessageCode::none, message_of_other_exception());
  }
}

}  // namespace

std::string why_no_shared_library(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    return errno == ENOENT ? "no such file" : std::string("cannot be read: ") + std::strerror(errno);
  }
  if (!S_ISREG(status.st_mode)) return "is not a regular file";
  // Without waiting, for what may have become a FIFO meanwhile.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return std::string("cannot be read: ") + std::strerror(errno);
  const auto size = static_cast<std::uint64_t>(status.st_size);
  Elf64_Ehdr header{};
  if (!read_at(file.get(), &header, sizeof header, 0)) return "is not a shared library (too short for one)";
  if (std::string why = check_header(header, size); !why.empty()) return why;
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  if (!read_at(file.get(), segments.data(), segments.size() * sizeof(Elf64_Phdr), header.e_phoff)) {
    return "cannot be read";
  }
  return check_segments(segments, size);
}

std::optional<ChildFailure> try_in_child(const std::function<void()>& work) {
  const std::optional<ChildAnswer> answer = answer_of_child([&] { return told_of(work); }, kPatience);
  if (!answer) return {};  // untried is better than refused
  if (!answer->in_time) return ChildFailure{"did not come back within " + std::to_string(kPatience) + " s"};
  const std::string& text = answer->text;
  if (text.size() > 2 && text[0] == kThrown)
    return ChildFailure{text.substr(3), static_cast<Thrown>(text[1]), static_cast<MessageCode>(text[2])};
  if (!text.empty()) return {};
  const int status = answer->wait_status;
  if (!WIFSIGNALED(status))
    return ChildFailure{"ended the process with status " + std::to_string(WEXITSTATUS(status))};
  const int signal = WTERMSIG(status);
  return ChildFailure{"crashed with signal " + std::to_string(signal) + " (" + strsignal(signal) + ")" +
                      (signal == SIGABRT ? ": an assertion, or an uncaught exception" : "")};
}

}  // namespace cxtrain
