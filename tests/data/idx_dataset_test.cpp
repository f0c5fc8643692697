#include "cxtrain/data/idx_dataset.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <zlib.h>

#include <cmath>
#include <random>

#include "support/catch.h"
#include "support/error_text.h"

#include "cxtrain/base/error.h"
#include "support/temp_dir.h"

namespace {

using namespace cxtrain;
using cxtrain::test::code;
using cxtrain::test::contains;
using test::TempDir;

std::string idx_header(char type, std::vector<std::uint32_t> sizes) {
  std::string header{'\0', '\0', type, static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(size >> shift & 0xff);
  }
  return header;
}

/// `count` images of 2 x 3, pixel j of image i being 10 i + j, and labels i.
struct Pair {
  explicit Pair(std::uint32_t count) : images(idx_header(8, {count, 2, 3})), labels(idx_header(8, {count})) {
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::uint32_t j = 0; j < 6; ++j) images += static_cast<char>(10 * i + j);
      labels += static_cast<char>(i);
    }
  }
  std::string images, labels;
};

std::string refusal(const TempDir& dir, const Pair& pair) {
  return test::error_of<DataError>(
      [&] { read_idx(dir.write("images", pair.images), dir.write("labels", pair.labels)); });
}

}  // namespace

TEST_CASE("IDX images become float planes and integer labels", "[idx]") {
  const TempDir dir;
  const Pair pair(5);
  const gzFile packed = gzopen(dir.file("images.gz").c_str(), "wb");
  gzwrite(packed, pair.images.data(), static_cast<unsigned>(pair.images.size()));
  gzclose(packed);
  const std::string labels = dir.write("labels", pair.labels);
  for (const std::string& images : {dir.write("images", pair.images), dir.file("images.gz")}) {
    const auto data = read_idx(images, labels);
    REQUIRE(data->size() == 5);
    Batch batch;
    const std::vector<std::int64_t> mixed{4, 1}, run{1, 2};
    for (const auto& which : {mixed, run}) {
      collate_samples(*data, which, {}, batch);
      CHECK(batch[0].scalar_type() == at::kByte);  // as it travels to a device
      data->on_after_batch_transfer(batch);
      CHECK(batch.size == 2);
      CHECK(batch[0].sizes() == at::IntArrayRef({2, 1, 2, 3}));
      CHECK(batch[0].scalar_type() == at::kFloat);
      CHECK(std::abs(batch[0][0][0][1][2].item<double>() - static_cast<double>(10 * which[0] + 5) / 255) <
            1e-6);
      CHECK(batch[1].equal(at::tensor(which)));
    }
    const auto part = data->slice(3, 5);
    CHECK(part->size() == 2);
    CHECK(part->labels().equal(at::tensor(std::vector<std::int64_t>{3, 4})));
  }
}

TEST_CASE("any bytes that are written as IDX files are read as they are, packed or not", "[idx]") {
  const TempDir dir;
  std::mt19937 random(5);
  const auto some = [&](std::uint32_t least, std::uint32_t most) {
    return static_cast<std::uint32_t>(least + random() % (most - least + 1));
  };
  for (int round = 0; round < 200; ++round) {
    const std::vector<std::uint32_t> sizes{some(1, 40), some(1, 33), some(1, 33)};
    const std::int64_t count = sizes[0], rows = sizes[1], columns = sizes[2], classes = some(1, 256);
    CAPTURE(round, count, rows, columns, classes);
    const at::Tensor images = at::empty({count, rows, columns}, at::kByte);
    const at::Tensor labels = at::empty({count}, at::kLong);
    std::string image_file = idx_header(8, sizes), label_file = idx_header(8, {sizes[0]});
    for (std::int64_t i = 0; i < images.numel(); ++i) {
      const auto pixel = static_cast<std::uint8_t>(random());
      images.mutable_data_ptr<std::uint8_t>()[i] = pixel;
      image_file += static_cast<char>(pixel);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const auto label = static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(classes));
      labels.mutable_data_ptr<std::int64_t>()[i] = label;
      label_file += static_cast<char>(label);
    }
    const auto written = [&](const std::string& name, const std::string& content) {
      if (some(0, 2) > 0) return dir.write(name, content);
      const gzFile packed = gzopen((dir.file(name) + ".gz").c_str(), "wb1");
      REQUIRE(gzwrite(packed, content.data(), static_cast<unsigned>(content.size())) > 0);
      REQUIRE(gzclose(packed) == Z_OK);
      return dir.file(name) + ".gz";
    };
    const auto data = read_idx(written("images", image_file), written("labels", label_file), classes);
    REQUIRE(data->images().equal(images));
    REQUIRE(data->labels().equal(labels));
  }
}

TEST_CASE("the brightest pixel is 1 and the images stay bytes", "[idx]") {
  const auto images = at::empty({1, 1, 1}, at::kByte).fill_(255);
  const IdxDataset data(images, at::empty({1}, at::kLong).zero_());
  Batch batch;
  const std::vector<std::int64_t> first{0};
  data.collate(first, {}, batch);
  data.on_after_batch_transfer(batch);
  CHECK(batch[0].item<float>() == 1);
  CHECK(images.item<int>() == 255);
}

TEST_CASE("every damage to IDX files is named", "[idx]") {
  const TempDir dir;
  Pair pair(5);
  SECTION("missing") {
    CHECK_THROWS_WITH(read_idx(dir.file("no"), dir.file("no")), contains("No such file"));
  }
  SECTION("truncated header") {
    pair.images.resize(9);
    CHECK_THAT(refusal(dir, pair), contains("images") && contains("truncated") && contains("9 bytes"));
  }
  SECTION("truncated") {
    pair.images.pop_back();
    CHECK_THAT(refusal(dir, pair), contains("truncated") && contains("30") && contains("29"));
  }
  SECTION("too long") {
    pair.labels += '\0';
    CHECK_THAT(refusal(dir, pair), contains("labels") && contains("too long"));
  }
  SECTION("another kind") {
    std::swap(pair.images, pair.labels);
    CHECK_THAT(refusal(dir, pair), contains("0x00000801") && contains("0x00000803"));
  }
  SECTION("counts that differ") {
    pair.labels = Pair(4).labels;
    CHECK_THAT(refusal(dir, pair), contains("5 images") && contains("4 labels"));
  }
  SECTION("a label out of range") {
    pair.labels.back() = 11;
    CHECK_THAT(refusal(dir, pair), contains("label 11") && contains("position 4") && contains("0 to 9"));
  }
  SECTION("sizes whose product wraps around") {
    pair.images = idx_header(8, {1U << 31, 1U << 31, 4}) + pair.images.substr(16);
    CHECK_THAT(refusal(dir, pair), contains("truncated"));
  }
}

TEST_CASE("a file without images is refused", "[idx]") {
  const TempDir dir;
  CHECK_THAT(refusal(dir, Pair(0)), contains(code(MessageCode::no_data)) && contains("images"));
}
