#pragma once

#include <atomic>
#include <cstdint>

/// Sleeping on a word that processes share.
namespace cxtrain {

/// Sleeps while the word is `value`, at most `milliseconds` (-1: without a limit); may wake for no reason.
void sleep_while(const std::atomic<std::uint32_t>& word, std::uint32_t value, int milliseconds = -1);
/// Wakes all that sleep on the word, in every process.
void wake_all(const std::atomic<std::uint32_t>& word);

}  // namespace cxtrain
