#include "cxtrain/metrics/text.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <sstream>

#include "cxtrain/base/error.h"
#include "cxtrain/metrics/class_inputs.h"
#include "cxtrain/metrics/metric_args.h"

namespace cxtrain {
namespace {

void require_pairs(const char* metric, std::size_t preds, std::size_t target) {
  if (preds == target) return;
  throw TrainingError(std::string(metric) + ": " + std::to_string(preds) + " predictions for " +
                          std::to_string(target) + " targets",
                      MessageCode::log_misuse);
}

/// Wagner and Fischer's algorithm, row by row.
template <class Item>
std::int64_t edit_distance(const std::vector<Item>& from, const std::vector<Item>& to,
                           std::int64_t substitution) {
  std::vector<std::int64_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::int64_t diagonal = row[0]++;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::int64_t replaced = diagonal + (from[i] == to[j] ? 0 : substitution);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// A byte that continues a character of UTF-8 is 10xxxxxx.
std::vector<std::string> characters_of(const std::string& text) {
  std::vector<std::string> characters;
  for (const char byte : text) {
    const bool continues = (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
    if (!continues || characters.empty()) characters.emplace_back();
    characters.back() += byte;
  }
  return characters;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

}  // namespace

void Perplexity::update(const at::Tensor& preds, const at::Tensor& target) {
  const Updating updating(*this);
  const at::Tensor logits = here(preds).reshape({-1, preds.size(-1)});
  const at::Tensor tokens = here(target).reshape({-1}).to(at::kLong), valid = tokens.ne(args_.ignore_index);
  if (logits.size(0) != tokens.numel())
    throw TrainingError("Perplexity: preds have " + std::to_string(logits.size(0)) +
                            " rows of scores, and target " + std::to_string(tokens.numel()) + " tokens",
                        MessageCode::log_misuse);
  class_inputs::require_classes("Perplexity", "target", tokens, valid, logits.size(1));
  const at::ScalarType dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor chosen =
      at::log_softmax(logits, 1, dtype).gather(1, at::where(valid, tokens, 0).unsqueeze(1)).squeeze(1);
  sum_ -= at::where(valid, chosen.to(at::kDouble), 0.0).sum();
  count_ += valid.sum();
}

EditDistance::EditDistance(const Args& args) : args_(checked_metric_args("EditDistance", args)) {}

void EditDistance::update(std::span<const std::string> preds, std::span<const std::string> target) {
  const Updating updating(*this);
  require_pairs("EditDistance", preds.size(), target.size());
  std::int64_t edits = 0;
  for (std::size_t i = 0; i < preds.size(); ++i)
    edits += edit_distance(characters_of(preds[i]), characters_of(target[i]), args_.substitution_cost);
  edits_ += edits;
  sequences_ += static_cast<std::int64_t>(preds.size());
}

void EditDistance::update(std::span<const std::vector<std::int64_t>> preds,
                          std::span<const std::vector<std::int64_t>> target) {
  const Updating updating(*this);
  require_pairs("EditDistance", preds.size(), target.size());
  std::int64_t edits = 0;
  for (std::size_t i = 0; i < preds.size(); ++i)
    edits += edit_distance(preds[i], target[i], args_.substitution_cost);
  edits_ += edits;
  sequences_ += static_cast<std::int64_t>(preds.size());
}

void WordErrorRate::update(std::span<const std::string> preds, std::span<const std::string> target) {
  const Updating updating(*this);
  require_pairs("WordErrorRate", preds.size(), target.size());
  std::int64_t edits = 0, words = 0;
  for (std::size_t i = 0; i < preds.size(); ++i) {
    const std::vector<std::string> wanted = words_of(target[i]);
    edits += edit_distance(words_of(preds[i]), wanted, 1);
    words += static_cast<std::int64_t>(wanted.size());
  }
  edits_ += edits;
  words_ += words;
}

}  // namespace cxtrain
