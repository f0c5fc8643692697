#include "cxtrain/report/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cxtrain/base/text.h"

namespace cxtrain {
namespace {

/// The round number that is a 1, 2 or 5 before zeros, and not below `least`.
double round_distance(double least) {
  const double decade = std::pow(10, std::floor(std::log10(least)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * decade >= least * (1 - 1e-9)) return digit * decade;
  }
  return 10 * decade;
}

double distance_of_ticks(double lowest, double highest, int most) {
  return round_distance((highest - lowest) / std::max(1, most - 1));
}

}  // namespace

Axis::Axis(double lowest, double highest, bool log) : lowest_(lowest), highest_(highest), log_(log) {
  const double size = std::max(std::abs(lowest), std::abs(highest));
  if (log ? highest > lowest * 1.0001 : highest - lowest > size * 1e-9 + 1e-300) return;
  lowest_ = log ? lowest / 2 : lowest - (size > 0 ? size / 10 : 1);
  highest_ = log ? highest * 2 : highest + (size > 0 ? size / 10 : 1);
}

void Axis::widen_to_ticks(int most_ticks) {
  if (log_) {  // a twentieth of the axis
    const double more = std::pow(highest_ / lowest_, 0.05);
    lowest_ /= more;
    highest_ *= more;
    return;
  }
  const double distance = distance_of_ticks(lowest_, highest_, most_ticks);
  lowest_ = std::floor(lowest_ / distance + 1e-9) * distance;
  highest_ = std::ceil(highest_ / distance - 1e-9) * distance;
}

double Axis::share(double value) const {
  if (!log_) return (value - lowest_) / (highest_ - lowest_);
  return value > 0 ? std::log(value / lowest_) / std::log(highest_ / lowest_) : 0;
}

std::vector<Axis::Tick> Axis::ticks(int most) const {
  std::vector<Tick> ticks;
  const double slack = 1e-9;
  if (!log_) {
    const double distance = distance_of_ticks(lowest_, highest_, most);
    const double first = std::ceil(lowest_ / distance - slack);
    const double largest = std::max(std::abs(lowest_), std::abs(highest_));
    const int digits = std::max(4, static_cast<int>(std::ceil(std::log10(largest / distance))) + 1);
    for (double i = first; i * distance <= highest_ + slack * distance; ++i)
      ticks.push_back({i * distance, axis_number(i == 0 ? 0 : i * distance, digits, largest)});
    return ticks;
  }
  const double begin = std::log10(lowest_), end = std::log10(highest_);
  const double decades = end - begin;
  const std::vector<double> digits = decades < 1.2   ? std::vector<double>{1, 2, 3, 5, 7}
                                     : decades < 2.5 ? std::vector<double>{1, 2, 5}
                                                     : std::vector<double>{1};
  const double every = std::max(1.0, std::ceil(decades / std::max(1, most - 1)));
  for (double decade = std::floor(begin / every) * every; decade <= end; decade += every) {
    for (const double digit : digits) {
      const double value = digit * std::pow(10, decade);
      if (value >= lowest_ * (1 - slack) && value <= highest_ * (1 + slack))
        ticks.push_back({value, axis_number(value)});
    }
  }
  if (ticks.empty()) ticks.push_back({lowest_, axis_number(lowest_)});
  return ticks;
}

std::string axis_number(double value, int digits, double largest) {
  const auto print = [&](double number) { return formatted("%.*g", std::min(digits, 16), number); };
  const double size = std::abs(value);
  constexpr double kTiny = 9.99e-4, kHuge = 1e15;
  if (size != 0 && (std::max(size, largest) < kTiny || size < 1e-3 * kTiny || size >= kHuge)) {
    const std::string number = formatted("%.*e", std::min(digits, 16) - 1, value);
    const std::size_t at = number.find('e');
    std::string mantissa = number.substr(0, at);
    if (mantissa.find('.') != std::string::npos) mantissa.erase(mantissa.find_last_not_of('0') + 1);
    if (mantissa.ends_with('.')) mantissa.pop_back();
    return mantissa + "e" + std::to_string(std::atoi(number.c_str() + at + 1));
  }
  double scaled = value;
  const char* suffix = "";
  for (const char* next : {"k", "M", "G", "T"}) {
    if (std::abs(scaled) < 999.95) break;
    scaled /= 1000;
    suffix = next;
  }
  return print(scaled) + suffix;
}

}  // namespace cxtrain
