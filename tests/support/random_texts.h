#pragma once

#include <random>
#include <string>
#include <vector>

namespace cxtrain::test {

/// Random texts that files find hard to keep: quotes, ends of lines, other scripts, signs of YAML and JSON,
/// and what may be taken for a number or a switch. The same seed gives the same texts on any machine.
class RandomTexts {
 public:
  explicit RandomTexts(unsigned seed) : random_(seed) {}

  /// One of 0 to n - 1.
  std::size_t pick(std::size_t n) { return random_() % n; }
  bool chance(std::size_t one_in) { return pick(one_in) == 0; }

  /// Up to three pieces, or a long text; valid UTF-8, without a zero byte.
  std::string text() {
    if (chance(30)) return std::string(1 + pick(2000), 'x') + std::string(pick(3), ' ') + "y";
    std::string made;
    for (std::size_t pieces = 1 + pick(3); pieces > 0; --pieces) made += piece();
    return made;
  }

  std::string piece() {
    // Words of YAML and JSON, and what looks like a number or a switch.
    static const std::vector<std::string> kPieces{
        "null",  "~",     "",     "true", "False", "yes", "off",   "NULL", "Null",  "007",  "0x1F",
        "0o17",  "1_000", "1e-3", ".5",   "5.",    "+3",  "-0",    "inf",  "nan",   ".inf", ".NaN",
        "12:30", "a: b",  "# no", "a #b", "- x",   "? x", "| x",   "> x",  "'",     "\"",   "''",
        "\"\"",  "{a}",   "[",    "]",    "}",     ",",   "[1,2]", "*x",   "&x",    "!t",   "!!str",
        "\\",    "\\n",   "%",    "%TAG", "@",     "`",   "---",   "...",  "--- a", "=",    "<<",
        ":",     "::",    "-",    "--",   "a/b",   "~/x", "$HOME", "2026"};
    // Blanks, ends of lines, control characters, other scripts.
    static const std::vector<std::string> kSigns{
        " ",    " a ",      "\t",       "\n",     "\n\n",   "\r\n", "\r",   "a\n b", "\x01", "\x1b[0m",
        "\x7f", "\xc2\x85", "\xc2\xa0", "\u2028", "\ufeff", "ü",    "日本", "😀",     "م",    "é"};
    const auto& list = chance(3) ? kSigns : kPieces;
    return list[pick(list.size())];
  }

 private:
  std::mt19937 random_;
};

}  // namespace cxtrain::test
