#include "cxtrain/report/curve.h"

#include <cmath>
#include <limits>

#include "cxtrain/report/axis.h"
#include "support/catch.h"

namespace cxtrain::test {
namespace {

TEST_CASE("a curve keeps its points while they can be drawn") {
  Curve curve;
  for (int step = 0; step < 100; ++step) curve.add(step * 10, step);
  REQUIRE(curve.pieces().size() == 100);
  CHECK(curve.pieces()[7].x == 70);
  CHECK(curve.pieces()[7].mean == 7);
  CHECK(curve.pieces()[7].count == 1);
  CHECK(curve.last().y == 99);
}

TEST_CASE("a long curve becomes pieces that keep its lowest and highest value") {
  Curve curve;
  constexpr int kPoints = 1'000'000;
  for (int step = 0; step < kPoints; ++step) curve.add(step, step == 65'535 ? -5 : step == 131'071 ? 9 : 1);
  CHECK(curve.pieces().size() <= Curve::kMaxPieces);
  CHECK(curve.pieces().size() > Curve::kMaxPieces / 4);
  CHECK(curve.points() == kPoints);
  CHECK(curve.lowest().x == 65'535);
  CHECK(curve.highest().x == 131'071);
  double lowest = 1, highest = 1;
  std::int64_t points = 0;
  for (const CurvePiece& piece : curve.pieces()) {
    lowest = std::min(lowest, piece.lowest);
    highest = std::max(highest, piece.highest);
    points += piece.count;
  }
  CHECK(lowest == -5);
  CHECK(highest == 9);
  CHECK(points == kPoints);
}

TEST_CASE("the means of pieces are the means of their points") {
  Curve curve;
  for (int step = 0; step < 100'000; ++step) curve.add(step, step);
  for (const CurvePiece& piece : curve.pieces()) {
    CHECK(piece.mean == Approx((piece.x + piece.last_x) / 2));
    CHECK(piece.lowest == piece.x);
    CHECK(piece.last == piece.last_x);
  }
}

TEST_CASE("points of a curve come in any order and at any distance") {
  Curve curve;
  curve.add(9e15, 1);
  curve.add(0, 2);
  curve.add(5, 3);
  curve.add(5, 5);
  REQUIRE(curve.pieces().size() == 3);
  CHECK(curve.pieces()[1].mean == 4);
  CHECK(curve.last().y == 1);
  for (int i = 0; i < 5000; ++i) curve.add(static_cast<double>(i * 7919 % 5000), i);
  CHECK(curve.pieces().size() <= Curve::kMaxPieces);
  for (std::size_t i = 1; i < curve.pieces().size(); ++i)
    CHECK(curve.pieces()[i - 1].x < curve.pieces()[i].x);
}

TEST_CASE("values that are not finite are counted, and drawn nowhere") {
  Curve curve;
  curve.add(0, std::nan(""));
  CHECK_FALSE(curve.has_values());
  curve.add(1, 1);
  curve.add(1, std::numeric_limits<double>::infinity());
  curve.add(2, 1e200);
  CHECK(curve.not_finite() == 3);
  CHECK(curve.points() == 4);
  CHECK(curve.lowest().y == 1);
  CHECK(curve.highest().y == 1);
  CHECK(curve.pieces()[1].not_finite == 1);
}

std::string tick_texts(const Axis& axis, int most) {
  std::string texts;
  for (const Axis::Tick& tick : axis.ticks(most)) texts += (texts.empty() ? "" : " ") + tick.text;
  return texts;
}

TEST_CASE("an axis is written on with round numbers") {
  CHECK(tick_texts(Axis(0, 1, false), 6) == "0 0.2 0.4 0.6 0.8 1");
  CHECK(tick_texts(Axis(0, 1349, false), 7) == "0 500 1k");
  CHECK(tick_texts(Axis(0, 1e-3, false), 6) == "0 0.0002 0.0004 0.0006 0.0008 0.001");
  CHECK(tick_texts(Axis(-1, 1, false), 5) == "-1 -0.5 0 0.5 1");
  CHECK(tick_texts(Axis(-3, 2.2e6, false), 6) == "0 500k 1M 1.5M 2M");
  CHECK(tick_texts(Axis(0, 3e-5, false), 4) == "0 1e-5 2e-5 3e-5");
  CHECK(tick_texts(Axis(1e-4, 10, true), 6) == "1e-4 0.001 0.01 0.1 1 10");
  CHECK(tick_texts(Axis(0.1, 5, true), 6) == "0.1 0.2 0.5 1 2 5");
  CHECK(tick_texts(Axis(1.000001, 1.000003, false), 3) == "1.000001 1.000002 1.000003");
}

TEST_CASE("an axis has room where all values are the same, and few numbers whatever its range is") {
  for (const double value : {0.0, 1.0, -7.5, 1e150, 1e-300}) {
    const Axis axis(value, value, false);
    CAPTURE(value);
    CHECK(axis.share(value) == Approx(0.5).margin(0.01));
    CHECK(axis.ticks(6).size() <= 8);
  }
  Axis wide(-1e150, 1e150, false);
  wide.widen_to_ticks(6);
  CHECK(wide.ticks(6).size() <= 8);
  CHECK(Axis(1e-150, 1e150, true).ticks(6).size() <= 8);
  CHECK(Axis(0.5, 0.5, true).ticks(6).size() <= 8);
}

}  // namespace
}  // namespace cxtrain::test
