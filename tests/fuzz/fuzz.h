#pragma once

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/fork_program.h"
#include "support/temp_dir.h"

/// Fuzz tests: the program with odd command lines and files. Each case has to end with 0 or 2, without a
/// signal, before its deadline, and with a message that one can read.
///
///     CXTRAIN_FUZZ_CASES=20000 CXTRAIN_FUZZ_SEED=7 build/release/bin/fuzz_tests
namespace cxtrain::test {

inline std::size_t from_environment(const char* name, std::size_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoul(text, nullptr, 10);
}

/// How many cases a test makes of its `share` of 2,000, or of as many as the environment asks for.
inline std::size_t cases(std::size_t share) {
  return share * from_environment("CXTRAIN_FUZZ_CASES", 2000) / 2000;
}

/// What JSON is made of, and these words.
inline std::vector<std::string> json_words(std::vector<std::string> more) {
  for (const char* word : {"{", "}", "[", "]", ",", ":", "\"", "null", "-1", "\\u0000", "\\ud800", "\xff"})
    more.emplace_back(word);
  return more;
}

class Random {
 public:
  explicit Random(std::size_t stream) : engine_(from_environment("CXTRAIN_FUZZ_SEED", 1) * 1000 + stream) {}

  std::size_t below(std::size_t n) { return n == 0 ? 0 : engine_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

  /// The text with a few bytes, words or lines changed, lost, doubled or moved; or cut; or, seldom, as it is.
  std::string damage(std::string text, const std::vector<std::string>& words) {
    if (one_in(10)) return text;
    for (std::size_t n = 1 + below(2); n > 0; --n) {
      const std::size_t at = below(text.size() + 1), length = below(text.size() - at + 1);
      const std::size_t few = std::min<std::size_t>(length, 1 + below(8));
      switch (below(8)) {
        case 0:
          text = text.substr(0, at);
          break;
        case 1:
          if (at < text.size()) text[at] = static_cast<char>(below(256));
          break;
        case 2:
          if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
          break;
        case 3:
          text.erase(at, few);
          break;
        case 4:
          text.insert(at, text.substr(at, few));
          break;
        case 5:
          text.insert(at, text.substr(below(text.size() + 1), length));
          break;
        default:
          text.replace(at, few, of(words));
      }
    }
    return text;
  }

 private:
  std::mt19937_64 engine_;
};

/// A command line, and what to say of it when it fails.
struct Case {
  std::vector<std::string> arguments;
  std::string note = {};
};

/// What every case has to keep.
inline void check_result(const Case& odd, const ForkedResult& result) {
  constexpr std::size_t kLongest = 4096;
  std::string line;
  for (const std::string& argument : odd.arguments) line += " '" + argument + "'";
  INFO("cxtrain_mpi" << line << "\n"
                     << odd.note << "\nstatus " << result.status << "\n"
                     << result.errors.substr(0, 2 * kLongest));
  CHECK((result.status == 0 || result.status == 2));
  if (result.status != 0) CHECK(result.errors.size() <= kLongest);
  // Nothing that steers a terminal.
  CHECK(result.errors.find('\x1b') == std::string::npos);
  CHECK(result.output.find('\x1b') == std::string::npos);
  const bool says_why = result.status == 0 || !result.errors.empty() || !result.output.empty();
  CHECK(says_why);
  for (const char* foreign : {"std::bad_alloc", "vector::", "basic_string::", "json.exception", "frame #",
                              "filesystem error", "terminate called", "Exception raised from"}) {
    CHECK(result.errors.find(foreign) == std::string::npos);
    CHECK(result.output.find(foreign) == std::string::npos);
  }
}

inline ForkedResult check_case(const std::vector<std::string>& arguments) {
  ForkedResult result = fork_program(arguments);
  check_result({arguments}, result);
  return result;
}

/// Makes and checks `share` of the cases, as many at a time as there are cores; each time `make` gets a
/// folder that no running case uses, and returns a Case. Reports how many ended with which status.
template <class Make>
void check_cases(const char* what, std::size_t share, Make make) {
  struct Place {
    TempDir folder;
    Case odd;
    std::optional<ForkedProgram> program;
  };
  std::vector<Place> places(std::max(1U, std::thread::hardware_concurrency()));
  std::map<int, int> counts;
  const auto end = [&](Place& place) {
    if (!place.program) return;
    const ForkedResult result = place.program->wait();
    place.program.reset();
    check_result(place.odd, result);
    ++counts[result.status];
  };
  const std::size_t all = cases(share);
  for (std::size_t n = 0; n < all; ++n) {
    Place& place = places[n % places.size()];
    end(place);
    place.odd = make(place.folder);
    place.program.emplace(place.odd.arguments);
  }
  for (Place& place : places) end(place);
  WARN(what << ": " << counts[0] << " accepted, " << counts[2] << " refused");
}

}  // namespace cxtrain::test
