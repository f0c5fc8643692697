#include <stdexcept>
#include "support/catch.h"

#include "cxtrain/report/progress_bar.h"
#include "cxtrain/report/progress_line.h"

namespace {

using namespace cxtrain;
using Metrics = std::vector<std::pair<std::string, double>>;

class FakeClock final : public Clock {
 public:
  double now() const override {
    ++looks;
    return time;
  }
  double time = 100;
  mutable std::int64_t looks = 0;
};

/// A bar on an imaginary terminal (or file, with 0 columns) that remembers what was printed.
struct Screen {
  explicit Screen(int columns_, bool leave = true)
      : columns(columns_),
        bar(
            clock, [this](std::string_view text) { printed += text; },
            [this](bool) {
              ++metrics_read;
              return metrics;
            },
            {.columns = [this] { return columns; }, .leave = leave}) {}

  std::string take() { return std::exchange(printed, {}); }

  FakeClock clock;
  int columns;
  Metrics metrics{{"train_loss", 0.123}};
  int metrics_read = 0;
  std::string printed;
  ProgressBar bar;
};

const ProgressLine kExample{"Epoch 2/10", 0, 540, 1200, 12.5, 256};

}  // namespace

TEST_CASE("the line says where a stage stands", "[progress]") {
  const Metrics metrics{{"train_loss", 0.12345}, {"val_acc", 0.97}};
  CHECK(progress_line(kExample, metrics, 117) ==
        "Epoch 2/10  45% |#######          | 540/1200 [00:13<00:15, 43.2 it/s, 11.1k samples/s] "
        "train_loss=0.1235 val_acc=0.97");
  CHECK(progress_line(kExample, metrics, 0) ==
        "Epoch 2/10  45% 540/1200 [00:13<00:15, 43.2 it/s, 11.1k samples/s] train_loss=0.1235 val_acc=0.97");
}

TEST_CASE("a line fits its columns whatever they are", "[progress]") {
  const Metrics metrics{{"train_loss", 0.12345}, {"val_acc", 0.97}};
  for (int columns = 1; columns < 160; ++columns) {
    const std::string line = progress_line(kExample, metrics, columns);
    CHECK(line.size() <= static_cast<std::size_t>(columns));
    const bool bar = line.find('|') != std::string::npos,
               first = line.find("train_loss") != std::string::npos,
               second = line.find("val_acc") != std::string::npos;
    CHECK((first || !second));
    CHECK((second || !bar));  // metrics before the bar
    CHECK((second || line.find("it/s") == std::string::npos));
  }
  CHECK(progress_line(kExample, metrics, 80) ==
        "Epoch 2/10  45% 540/1200 [00:13<00:15, 43.2 it/s] train_loss=0.1235 val_acc=0.97");
  CHECK(progress_line(kExample, metrics, 60) == "Epoch 2/10  45% 540/1200 train_loss=0.1235 val_acc=0.97");
  CHECK(progress_line(kExample, metrics, 45) == "Epoch 2/10  45% 540/1200 train_loss=0.1235");
  CHECK(progress_line(kExample, metrics, 20) == "Epoch 2/10  45% 540/");
}

TEST_CASE("rates count only what was done since the start", "[progress]") {
  CHECK(progress_line({"E", 500, 600, 700, 10, 0}, {}, 0) == "E  85% 600/700 [00:10<00:10, 10.0 it/s]");
  CHECK(progress_line({"E", 500, 500, 700, 0, 8}, {}, 0) == "E  71% 500/700 [00:00<--:--, ? it/s]");
  CHECK(progress_line({"E", 0, 5, -1, 10, 0}, {}, 60) == "E 5/? [00:10<--:--, 0.50 it/s]");
  CHECK(progress_line({"E", 0, 0, 0, 0, 0}, {}, 0) == "E 100% 0/0 [00:00<--:--, ? it/s]");
}

TEST_CASE("numbers in a line are short", "[progress]") {
  CHECK(format_elapsed(59.6) == "01:00");
  CHECK(format_elapsed(3723) == "1:02:03");
  CHECK(format_elapsed(432000) == "120:00:00");
  CHECK(format_elapsed(1e300) == "596523:14:07");
  CHECK(format_rate(0.123) == "0.12");
  CHECK(format_rate(0.004) == "0.004");
  CHECK(format_rate(0) == "0.00");
  CHECK(format_rate(99.96) == "100");
  CHECK(format_rate(999.6) == "1.00k");
  CHECK(format_rate(2.5e6) == "2.50M");
  CHECK(format_metric(0) == "0");
  CHECK(format_metric(12.34567) == "12.35");
  CHECK(format_metric(0.0000123456) == "1.23e-05");
  CHECK(format_metric(-3e7) == "-3e+07");
}

TEST_CASE("a terminal's line is drawn at most ten times a second", "[progress]") {
  Screen screen(101);
  screen.bar.start("Epoch 1/1", 1000, 32);
  for (int step = 1; step <= 1000; ++step) {
    screen.clock.time += 0.001;
    screen.bar.update(step);
  }
  CHECK(screen.metrics_read >= 8);
  CHECK(screen.metrics_read <= 10);
  const std::string drawn = screen.take();
  CHECK(
      drawn.starts_with("\r\x1b[K"
                        "Epoch 1/1"));
  CHECK(drawn.find('\n') == std::string::npos);
  screen.bar.finish();
  CHECK(screen.take() ==
        "\r\x1b[K"
        "Epoch 1/1 100% |#############| 1000/1000 [00:01<00:00, 1.00k it/s, 32.0k samples/s] "
        "train_loss=0.123\n");
  screen.bar.finish();
  CHECK(screen.take().empty());
}

TEST_CASE("without a terminal there is a plain line every few seconds", "[progress]") {
  Screen screen(0);
  screen.bar.start("Epoch 1/1", 20, 0);
  for (int step = 1; step <= 12; ++step) {
    screen.clock.time += 1;
    screen.bar.update(step);
  }
  CHECK(screen.take() ==
        "Epoch 1/1  25% 5/20 [00:05<00:15, 1.00 it/s] train_loss=0.123\n"
        "Epoch 1/1  50% 10/20 [00:10<00:10, 1.00 it/s] train_loss=0.123\n");
  screen.bar.finish();
  CHECK(screen.take() == "Epoch 1/1  60% 12/20 [00:12<00:08, 1.00 it/s] train_loss=0.123\n");
}

TEST_CASE("without a terminal every stage has its line", "[progress]") {
  Screen screen(0);
  for (int epoch = 1; epoch <= 40; ++epoch) {
    const std::string label = "Epoch " + std::to_string(epoch);
    screen.bar.start(label, 1);
    screen.clock.time += 0.25;
    screen.bar.update(1);
    screen.bar.finish();
    const std::string printed = screen.take();
    CHECK(printed.starts_with(label + " 100% "));
    CHECK(std::count(printed.begin(), printed.end(), '\n') == 1);
  }
}

TEST_CASE("without a terminal stages of milliseconds do not flood the log, and the last has its line",
          "[progress]") {
  Screen screen(0);
  for (int epoch = 1; epoch <= 400; ++epoch) {
    screen.bar.start("Epoch " + std::to_string(epoch), 1);
    screen.clock.time += 0.01;
    screen.bar.update(1);
    screen.bar.finish(/*always=*/epoch == 400);
  }
  const std::string printed = screen.take();
  CHECK(std::count(printed.begin(), printed.end(), '\n') <= 42);
  CHECK(printed.find("Epoch 400 ") != std::string::npos);
}

TEST_CASE("the end of a stage is told although a line came just before", "[progress]") {
  Screen screen(0);
  screen.bar.start("Epoch 1/1", 6);
  for (int step = 1; step <= 6; ++step) {
    screen.clock.time += 0.9;
    screen.bar.update(step);
  }
  CHECK(screen.take() == "Epoch 1/1 100% 6/6 [00:05<00:00, 1.11 it/s] train_loss=0.123\n");
  screen.metrics.emplace_back("val_loss", 0.5);
  screen.bar.finish();
  CHECK(screen.take() == "Epoch 1/1 100% 6/6 [00:05<00:00, 1.11 it/s] train_loss=0.123 val_loss=0.5\n");
}

TEST_CASE("a bar that starts after its first step counts from when that began", "[progress]") {
  Screen screen(0);
  const double began = screen.clock.time;
  screen.clock.time += 2;
  screen.bar.start("Epoch 1/1", 4, 8, 0, began);
  screen.bar.update(1);
  screen.bar.finish();
  CHECK(screen.take() == "Epoch 1/1  25% 1/4 [00:02<00:06, 0.50 it/s, 4.00 samples/s] train_loss=0.123\n");
}

TEST_CASE("a slow step is drawn at once after many fast ones", "[progress]") {
  Screen screen(100);
  screen.bar.start("E", 1000);
  int step = 0;
  while (step < 500) {
    screen.clock.time += 1e-6;
    screen.bar.update(++step);
  }
  CHECK(screen.take().empty());
  for (int i = 0; i < 8; ++i) {
    screen.clock.time += 1;
    screen.bar.update(++step);
  }
  CHECK_FALSE(screen.take().empty());
}

TEST_CASE("steps that draw nothing rarely read the clock, and metrics never", "[progress]") {
  Screen screen(100);
  screen.bar.start("E", 100000);
  screen.clock.looks = 0;
  for (int step = 1; step <= 10000; ++step) {
    screen.clock.time += 1e-6;
    screen.bar.update(step);
  }
  CHECK(screen.clock.looks < 10000 / 8 + 10);
  CHECK(screen.metrics_read == 0);
}

TEST_CASE("a bar that is not left vanishes", "[progress]") {
  Screen screen(80, false);
  screen.bar.start("Validating", 10);
  screen.clock.time += 1;
  screen.bar.update(5);
  CHECK(screen.take().find("Validating") != std::string::npos);
  screen.bar.finish();
  CHECK(screen.take() == "\r\x1b[K");
  Screen file(0, false);
  file.bar.start("Validating", 10);
  file.bar.finish();
  CHECK(file.take().empty());
}

TEST_CASE("a line gives way to other output and is ended by the destructor", "[progress]") {
  std::string printed;
  FakeClock clock;
  {
    ProgressBar bar(clock, [&](std::string_view text) { printed += text; }, {},
                    {.columns = [] { return 80; }});
    bar.start("E", 10);
    bar.clear();
    CHECK(printed.empty());
    clock.time += 1;
    bar.update(1);
    printed.clear();
    bar.clear();
    CHECK(printed == "\r\x1b[K");
    clock.time += 1;
    bar.update(2);
    printed.clear();
  }
  CHECK(printed == "\n");
}

TEST_CASE("nothing that goes wrong with drawing reaches the training", "[progress]") {
  FakeClock clock;
  int writes = 0, questions = 0;
  const auto lost = [&](std::string_view) {
    ++writes;
    throw std::runtime_error("gone");
  };
  ProgressBar deaf(clock, lost, {}, {.columns = [] { return 80; }});
  deaf.start("E", 10);
  clock.time += 1;
  deaf.update(1);
  deaf.finish();
  ProgressBar blind(
      clock, [](std::string_view) {},
      [&](bool) -> Metrics {
        ++questions;
        throw std::runtime_error("no metrics");
      });
  blind.start("E", 10);
  clock.time += 10;
  blind.update(1);
  CHECK(writes > 0);
  CHECK(questions > 0);
}

TEST_CASE("an update that draws nothing costs nanoseconds", "[progress]") {
  const SteadyClock clock;
  ProgressBar bar(clock, [](std::string_view) {}, {}, {.redraw_seconds = 1e9, .line_seconds = 1e9});
  constexpr std::int64_t kRounds = 100, kSteps = 10'000;
  bar.start("E", kRounds * kSteps);
  double least = 1e9;  // ns of an update, in the round that others disturb least
  for (std::int64_t round = 0; round < kRounds; ++round) {
    const double begin = clock.now();
    for (std::int64_t step = 1; step <= kSteps; ++step) bar.update(round * kSteps + step);
    least = std::min(least, (clock.now() - begin) / kSteps * 1e9);
  }
  INFO(least << " ns");
  CHECK(least < 100);
}
