#pragma once

#include <cstdint>
#include <sstream>
#include <string>

namespace cxtrain {

/// "0.31 MB", "254 MB", "12.9 GB".
inline std::string readable_bytes(std::int64_t bytes) {
  constexpr double kMegabyte = 1e6, kGigabyte = 1e9;
  const auto value = static_cast<double>(bytes);
  const bool large = value >= kGigabyte;
  std::ostringstream text;
  text.precision(3);
  text << value / (large ? kGigabyte : kMegabyte) << (large ? " GB" : " MB");
  return text.str();
}

}  // namespace cxtrain
