#include "cxtrain/tensor/piece.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <random>

#include "cxtrain/base/error.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

at::Tensor numbers(at::IntArrayRef shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return at::arange(count, at::kFloat).view(shape);
}

/// Cuts a tensor at some random places.
std::vector<Piece> cut(const at::Tensor& tensor, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Piece> pieces;
  for (std::int64_t begin = 0; begin < tensor.numel();) {
    const std::int64_t end = std::min<std::int64_t>(tensor.numel(), begin + 1 + random() % 20);
    pieces.push_back(part_of("x", tensor, {begin, end}));
    begin = end;
  }
  return pieces;
}

TEST_CASE("pieces are filled from pieces of any other cut, wholes and channels-last ones among them") {
  const auto seed = static_cast<unsigned>(GENERATE(range(0, 20)));
  const at::Tensor source = numbers({2, 3, 4, 5});
  at::Tensor target = at::zeros({2, 3, 4, 5});
  fill_pieces(cut(target, seed), cut(source, seed + 100));
  CHECK(at::equal(target, source));
  target.zero_();
  fill_pieces(cut(target, seed), std::vector{whole_piece("x", source)});
  CHECK(at::equal(target, source));
  target = at::zeros({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  fill_pieces(std::vector{whole_piece("x", target)}, cut(source, seed));
  CHECK(at::equal(target, source));
}

TEST_CASE("a piece that is not covered, or of another shape, is named") {
  const at::Tensor source = numbers({30}), target = at::zeros({30});
  const std::vector<Piece> wanted{whole_piece("x", target)};
  CHECK_THROWS_WITH(fill_pieces(wanted, {}), test::contains("lacks x"));
  CHECK_THAT(
      test::error_of([&] {
        fill_pieces(wanted, std::vector{part_of("x", source, {0, 10}), part_of("x", source, {11, 30})});
      }),
      test::contains(test::code(MessageCode::bad_state)) && test::contains(" x "));
  CHECK_THAT(test::error_of([&] {
               fill_pieces(wanted, std::vector{whole_piece("x", numbers({5, 6}))});
             }),
             test::contains(test::code(MessageCode::bad_state)) && test::contains("[30]") &&
                 test::contains("[5, 6]"));
  CHECK_THROWS_AS(fill_pieces(wanted, {}), StateError);
}

}  // namespace
}  // namespace cxtrain
