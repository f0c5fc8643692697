#include "cxtrain/data/digits_dataset.h"

#include <ATen/ops/tensor.h>

#include <charconv>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cxtrain/base/error.h"
#include "cxtrain/data/data_file.h"

namespace cxtrain {
namespace {

constexpr int kPixels = 64;
constexpr int kBrightest = 16;

/// Reads one line's 65 integers, appending to both; returns what is wrong with it, or nothing.
std::string parse_line(std::string_view line, std::vector<float>& pixels, std::vector<std::int64_t>& labels) {
  const char* at = line.data();
  const char* const end = at + line.size();
  for (int column = 0; column <= kPixels; ++column) {
    if (column > 0) {
      if (at == end) return "it has " + std::to_string(column) + " values instead of 65";
      if (*at++ != ',') return "no comma follows value " + std::to_string(column);
    }
    int value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    if (error != std::errc()) return "value " + std::to_string(column + 1) + " is not an integer";
    const int highest = column < kPixels ? kBrightest : 9;
    if (value < 0 || value > highest) {
      return (column < kPixels ? "pixel " + std::to_string(column + 1) : std::string("the label")) + " is " +
             std::to_string(value) + ", not one of 0 to " + std::to_string(highest);
    }
    at = rest;
    if (column < kPixels) {
      pixels.push_back(static_cast<float>(value) / kBrightest);
    } else {
      labels.push_back(value);
    }
  }
  return at == end ? "" : "something follows its 65th value";
}

}  // namespace

Digits read_digits(const std::string& path) {
  const std::string content = read_file(path);
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  std::string_view rest = content;
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t length = rest.find('\n');
    std::string_view line = rest.substr(0, length);
    rest.remove_prefix(length == std::string_view::npos ? rest.size() : length + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (const std::string wrong = parse_line(line, pixels, labels); !wrong.empty()) {
      throw DataError("'" + path + "' is not a file of digits: in line " + std::to_string(number) + ", " +
                      wrong +
                      "; each line is 64 pixels from 0 to 16 and a label from 0 to 9, separated by commas");
    }
  }
  if (labels.empty())
    throw DataError("'" + path + "' holds no digits: it is empty; fetch it again", MessageCode::no_data);

  return {at::tensor(pixels).view({-1, kPixels}), at::tensor(labels)};
}

}  // namespace cxtrain
