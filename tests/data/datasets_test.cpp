#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/imag.h>
#include <ATen/ops/tensor.h>
#include <sys/stat.h>
#include <zlib.h>

#include <limits>

#include "support/catch.h"
#include "support/error_text.h"

#include "cxtrain/base/error.h"
#include "cxtrain/data/data_file.h"
#include "cxtrain/data/digits_dataset.h"
#include "cxtrain/data/tensor_dataset.h"
#include "cxtrain/data/text_dataset.h"
#include "support/temp_dir.h"

namespace {

using namespace cxtrain;
using cxtrain::test::code;
using cxtrain::test::contains;
using cxtrain::test::error_of;
using test::TempDir;

std::string gzip_file(const TempDir& dir, const std::string& name, const std::string& content) {
  const gzFile file = gzopen(dir.file(name).c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  return dir.file(name);
}

/// A line of the digits file: `pixel` 64 times and the label.
std::string digit_line(int pixel, int label) {
  std::string line;
  for (int i = 0; i < 64; ++i) line += std::to_string(pixel) + ",";
  return line + std::to_string(label) + "\n";
}

}  // namespace

TEST_CASE("consecutive rows are a view, others a copy", "[dataset]") {
  const at::Tensor x = at::arange(20, at::TensorOptions().dtype(at::kFloat)).view({10, 2});
  const at::Tensor y = at::arange(10, at::TensorOptions().dtype(at::kLong));
  const TensorDataset data({x, y});
  CHECK(data.size() == 10);

  Batch batch;
  const std::vector<std::int64_t> run{4, 5, 6}, mixed{9, 0, 0, 3}, none{};
  collate_samples(data, run, {}, batch);
  CHECK(batch.size == 3);
  CHECK(batch[0].equal(x.narrow(0, 4, 3)));
  CHECK(batch[0].is_alias_of(x));

  collate_samples(data, mixed, {}, batch);
  CHECK(batch[0].equal(x.index_select(0, at::tensor(mixed))));
  CHECK(batch[1].equal(at::tensor(mixed)));
  CHECK_FALSE(batch[0].is_alias_of(x));

  collate_samples(data, none, {}, batch);
  CHECK(batch.size == 0);
  CHECK(batch.tensors.empty());
  CHECK(batch.indices.empty());
}

TEST_CASE("rows are copied, however they lie in memory", "[dataset]") {
  const at::Tensor x = at::arange(240, at::TensorOptions().dtype(at::kFloat)).view({12, 20});
  const std::vector<std::int64_t> which{11, 0, 0, 3, 7, 2};
  for (const at::Tensor& source :
       {x, x.to(at::kByte), x.t().contiguous().t(), x.slice(1, 3, 9), at::complex(x, x).conj(),
        at::imag(at::complex(x, x).conj()), x.select(1, 0), at::empty({12, 0})}) {
    INFO(source.sizes() << " " << source.strides());
    CHECK(gather_rows(source, which).equal(source.index_select(0, at::tensor(which))));
  }
}

TEST_CASE("many rows are copied by several threads", "[dataset]") {
  const at::Tensor x = at::arange(1 << 20).view({512, 2048});
  std::vector<std::int64_t> which;
  for (std::int64_t i = 0; i < 512; ++i) which.push_back(i * 37 % 512);
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  const at::Tensor rows = gather_rows(x, which);
  at::set_num_threads(threads);
  CHECK(rows.equal(x.index_select(0, at::tensor(which))));
}

TEST_CASE("a row that is not there is refused", "[dataset]") {
  const at::Tensor x = at::arange(5);
  for (const std::vector<std::int64_t>& which : {std::vector<std::int64_t>{0, 5}, {4, 5}, {-1, 0}, {3, -1}})
    CHECK_THROWS_WITH(gather_rows(x, which), contains("of a tensor with 5 rows"));
}

TEST_CASE("a batch can take part in autograd", "[dataset]") {
  const TensorDataset data({at::arange(6, at::TensorOptions().dtype(at::kFloat))});
  for (const std::vector<std::int64_t>& which : {std::vector<std::int64_t>{1, 2}, {5, 2}}) {
    Batch batch;
    data.collate(which, {}, batch);
    const at::Tensor weight = at::tensor({1.0F, 1.0F}).requires_grad_();
    weight.mul(batch[0]).sum().backward();
    CHECK(weight.grad().equal(batch[0]));
  }
}

TEST_CASE("tensors that do not belong together are refused", "[dataset]") {
  CHECK_THROWS_AS(TensorDataset(std::vector<at::Tensor>{}), DataError);
  const at::Tensor three = at::empty({3, 2}), four = at::empty({4});
  CHECK_THROWS_WITH(TensorDataset({three, four}), contains("[3, 2]") && contains("[4]"));
  CHECK_THROWS_AS(TensorDataset({three, at::Tensor()}), DataError);
}

TEST_CASE("digits are read, gzipped or not", "[dataset]") {
  const TempDir dir;
  const std::string content = digit_line(0, 3) + digit_line(16, 9) + digit_line(4, 0);
  for (const std::string& path : {dir.write("d.csv", content), gzip_file(dir, "d.csv.gz", content)}) {
    const Digits digits = read_digits(path);
    CHECK(digits.images.sizes() == at::IntArrayRef({3, 64}));
    CHECK(digits.images.scalar_type() == at::kFloat);
    CHECK(digits.labels.equal(at::tensor(std::vector<std::int64_t>{3, 9, 0})));
    CHECK(digits.images[1].min().item<float>() == 1);
    CHECK(digits.images[2].max().item<float>() == 0.25F);
  }
  CHECK(read_digits(dir.write("crlf.csv", digit_line(1, 1).insert(129, "\r"))).labels.size(0) == 1);
}

TEST_CASE("a damaged file of digits is refused by file and line", "[dataset]") {
  const TempDir dir;
  const std::string good = digit_line(1, 1);
  const auto refusal = [&](const std::string& content) {
    return test::error_of<DataError>([&] { read_digits(dir.write("bad.csv", content)); });
  };
  CHECK_THAT(refusal(good + digit_line(17, 1)), contains("bad.csv") && contains("line 2") && contains("17"));
  CHECK_THAT(refusal(digit_line(1, 10)), contains("label") && contains("10"));
  CHECK_THAT(refusal("1,2,3\n"), contains("3 values"));
  CHECK_THAT(refusal("a" + good),
             contains(code(MessageCode::bad_data)) && contains("line 1") && contains("value 1"));
  CHECK_THAT(refusal(good.substr(0, good.size() - 1) + ",5\n"), contains("follows"));
  CHECK_THAT(refusal(""), contains("empty"));
}

TEST_CASE("files that cannot be read say why", "[dataset]") {
  const TempDir dir;
  CHECK_THROWS_WITH(read_file(dir.file("none")), contains("none") && contains("No such file"));
  CHECK_THROWS_WITH(read_file(dir.path()), contains("directory"));
  std::string noise;
  for (std::uint32_t i = 0, x = 1; i < 20000; ++i)
    noise += static_cast<char>((x = x * 1664525 + 1013904223) >> 24);
  const std::string packed = test::slurp(gzip_file(dir, "noise.gz", noise));
  CHECK(read_file(dir.file("noise.gz")) == noise);
  CHECK_THROWS_WITH(read_file(dir.write("half.gz", packed.substr(0, packed.size() / 2))),
                    contains("truncated"));
  std::string flipped = packed;
  flipped[packed.size() - 6] ^= 1;  // in the checksum
  CHECK_THROWS_WITH(read_file(dir.write("flipped.gz", flipped)), contains("damaged"));
}

TEST_CASE("pipes and devices are no files of data", "[dataset]") {
  const TempDir dir;
  REQUIRE(mkfifo(dir.file("pipe").c_str(), 0600) == 0);
  CHECK_THAT(error_of([&] { read_file(dir.file("pipe")); }),
             contains(code(MessageCode::file_failed)) && contains("pipe"));
  CHECK_THAT(error_of([&] { read_file("/dev/zero"); }),
             contains(code(MessageCode::file_failed)) && contains("device"));
}

TEST_CASE("what follows a gzip stream is ignored, as gzip does", "[dataset]") {
  const TempDir dir;
  const std::string packed = test::slurp(gzip_file(dir, "a.gz", "content"));
  CHECK(read_file(dir.write("zeros.gz", packed + std::string(100, '\0'))) == "content");
  CHECK(read_file(dir.write("garbage.gz", packed + "garbage")) == "content");
  CHECK(read_file(dir.write("two.gz", packed + packed)) == "contentcontent");
}

TEST_CASE("text samples are bytes and the bytes that follow", "[dataset]") {
  const auto text = std::make_shared<const std::string>("abcdefghij\xff");
  const TextDataset data(text, 1, 11, 4, 3);  // bcdefghij\xff
  CHECK(data.size() == 2);
  Batch batch;
  const std::vector<std::int64_t> both{1, 0};
  data.collate(both, {}, batch);
  CHECK(batch[0].equal(
      at::tensor(std::vector<std::int64_t>{'e', 'f', 'g', 'h', 'b', 'c', 'd', 'e'}).view({2, 4})));
  CHECK(batch[1].equal(
      at::tensor(std::vector<std::int64_t>{'f', 'g', 'h', 'i', 'c', 'd', 'e', 'f'}).view({2, 4})));
  const TextDataset whole(text, 1, 11, 9, 1);
  CHECK(whole.size() == 1);
  const std::vector<std::int64_t> first{0};
  whole.collate(first, {}, batch);
  CHECK(batch[1][0][8].item<std::int64_t>() == 255);
  CHECK_THROWS_AS(TextDataset(text, 1, 11, 10, 1), DataError);
  CHECK_THROWS_AS(TextDataset(text, 1, 11, std::numeric_limits<std::int64_t>::max(), 1), DataError);
}

TEST_CASE("a text is split nine to one without overlap", "[dataset]") {
  const TempDir dir;
  std::string text(1000, 't');
  std::fill(text.begin() + 900, text.end(), 'v');
  const TextSplit split = read_text(dir.write("t.txt", text), 8, 2);
  CHECK(split.train->size() == (900 - 9) / 2 + 1);
  CHECK(split.val->size() == (100 - 9) / 8 + 1);
  Batch batch;
  const std::vector<std::int64_t> last{split.train->size() - 1}, first{0};
  split.train->collate(last, {}, batch);
  CHECK(batch[1].eq('t').all().item<bool>());
  split.val->collate(first, {}, batch);
  CHECK(batch[0].eq('v').all().item<bool>());
  CHECK_THROWS_WITH(read_text(dir.write("short.txt", "too short"), 8, 1),
                    contains("short.txt") && contains("9 bytes"));
}

TEST_CASE("data files are looked for in the stated order", "[dataset]") {
  const TempDir dir;
  CHECK(data_folders("/a/b/bin/program", "/mine") ==
        std::vector<std::string>{"/mine", "/a/b/share/cxtrain/data"});
  // Of a checkout, which has a CMakeLists.txt; not of every folder above, which may be anybody's.
  std::filesystem::create_directories(dir.file("checkout/build/release/bin"));
  const std::string program = dir.file("checkout/build/release/bin/program");
  CHECK(data_folders(program, std::nullopt) ==
        std::vector<std::string>{dir.file("checkout/build/release/share/cxtrain/data")});
  dir.write("checkout/CMakeLists.txt", "");
  CHECK(data_folders(program, std::nullopt) ==
        std::vector<std::string>{dir.file("checkout/build/release/share/cxtrain/data"),
                                 dir.file("checkout/.deps/data")});

  std::filesystem::create_directory(dir.file("second"));
  const std::vector<std::string> two{dir.file("first"), dir.file("second")};
  CHECK_THROWS_WITH(find_data_file("x", two), contains(dir.file("first/x")) &&
                                                  contains(dir.file("second/x")) && contains("--data.path") &&
                                                  contains("CXTRAIN_DATA"));
  dir.write("second/x", "1");
  CHECK(find_data_file("x", two) == dir.file("second/x"));
}
