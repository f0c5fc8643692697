#include "cxtrain/report/run_record.h"

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/run_event.h"
#include "cxtrain/report/report_page.h"
#include "cxtrain/report/run_files.h"
#include "cxtrain/report/svg_chart.h"
#include "cxtrain/report/tensorboard/event_writer.h"
#include "support/catch.h"
#include "support/faulty_filesystem.h"

/// A run's folder becomes a record, and records become a page.
namespace cxtrain::test {
namespace {

constexpr double kReportTime = 1'700'000'000;

class RecordedRun {
 public:
  explicit RecordedRun(FaultyFilesystem& files, const std::string& root = "/runs")
      : files_(files), path_(make_version_dir(files, root)) {
    write("config.yaml", "trainer:\n  max_epochs: 30\n  plugin:\n    - a.so\nseed: 1\n");
  }
  void write(const std::string& name, const std::string& text) {
    write_atomically(files_, path_ + "/" + name, text);
  }
  void write_rows(int rows) {
    std::string text;
    for (int step = 0; step < rows; ++step) {
      text += "{\"step\":" + std::to_string(step) +
              ",\"epoch\":0,\"train_loss\":" + std::to_string(1.0 / (step + 1)) + ",\"lr-Adam\":0.01}\n";
      if (step % 10 == 9) text += "{\"step\":" + std::to_string(step) + ",\"epoch\":0,\"val_loss\":0.5}\n";
    }
    write("metrics.jsonl", text);
  }
  RunRecord record() { return read_run_record(files_, path_, kReportTime); }
  std::string page() {
    const std::vector<RunRecord> records{record()};
    return report_page(records, kReportTime);
  }
  const std::string& path() const { return path_; }

 private:
  FaultyFilesystem& files_;
  std::string path_;
};

std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string fact_of(const RunRecord& record, const std::string& name) {
  for (const auto& [key, value] : record.facts) {
    if (key == name) return value;
  }
  return "(none)";
}

TEST_CASE("a record has a run's metrics, its events and its place") {
  FaultyFilesystem files;
  RecordedRun run(files);
  run.write_rows(50);
  RunSummary summary;
  summary.status = "done";
  summary.world_size = 4;
  summary.strategy = "ddp";
  summary.precision = "bf16-mixed";
  summary.global_step = 50;
  summary.seconds = 75;
  run.write("run.json", to_json(summary));
  run.write("lr_find.csv", "lr,loss\n1e-8,2.3\n1e-3,1.9\n0.1,nan\nx,y\n-1,2\n");
  run.write("events.jsonl",
            R"({"time":1e9,"event":"devices","rank":0,"text":"node 0: ranks 0-3 on cpu"})"
            "\n"
            R"({"time":1e9,"event":"lr_found","rank":0,"lr":0.05248,"text":""})"
            "\n"
            R"({"time":1e9,"event":"checkpoint","rank":0,"step":20,"text":"/step=7/epoch=0-step=20.ckpt"})"
            "\n"
            R"({"time":1e9,"event":"resumed","rank":0,"step":20,"text":"resumed at epoch 0, step 20"})"
            "\n"
            R"({"time":1e9,"event":"straggler","rank":0,"step":30,"text":"rank 3 on n2 is slow"})"
            "\n"
            R"({"time":1e9,"event":"error","rank":0,"text":"the last\nof two lines"})"
            "\n");
  const RunRecord record = run.record();
  CHECK(record.metrics.at("train_loss").points() == 50);
  CHECK(record.metrics.at("val_loss").points() == 5);
  CHECK(record.lr_suggestion == Approx(0.05248));
  CHECK(record.lr_sweep.points() == 3);
  CHECK(record.lr_sweep.last().x == Approx(-3));
  REQUIRE(record.marks.size() == 3);
  using Kind = RunRecord::Mark::Kind;
  CHECK((record.marks[0].kind == Kind::checkpoint && record.marks[0].step == 20));
  CHECK((record.marks[1].kind == Kind::restart && record.marks[1].step == 20));
  CHECK((record.marks[2].kind == Kind::straggler && record.marks[2].step == 30));
  REQUIRE(record.events.size() == 3);
  CHECK_THAT(record.events[0], Catch::Matchers::EndsWith(" rank 0 detail: resumed at epoch 0, step 20"));
  CHECK_THAT(record.marks[2].text, Catch::Matchers::EndsWith(" rank 0 warning: rank 3 on n2 is slow"));
  CHECK(fact_of(record, "devices") == "node 0: ranks 0-3 on cpu");
  CHECK(fact_of(record, "strategy") == "ddp");
  CHECK(fact_of(record, "precision") == "bf16-mixed");
  CHECK(fact_of(record, "world") == "4 ranks");
  CHECK(fact_of(record, "time") == "01:15");
  CHECK(record.notes.empty());

  const std::string page = run.page();
  CHECK_THAT(page, contains("class=\"restart\" d="));
  CHECK_THAT(page, contains("chosen: 0.05248"));
  CHECK_THAT(page, contains("learning rate finder"));
  CHECK_THAT(page, contains("error: the last"));
  CHECK_THAT(page, contains("max_epochs: 30"));
  CHECK(count_in(page, "<svg class=\"chart\"") == 3);  // loss, learning rate, its finder
}

TEST_CASE("a page of several runs has the marks of all of them") {
  FaultyFilesystem files;
  RecordedRun first(files), second(files);
  std::vector<RunRecord> records;
  for (RecordedRun* const run : {&first, &second}) {
    run->write_rows(50);
    run->write("events.jsonl", R"({"time":1000,"event":"resumed","rank":0,"step":)" +
                                   std::string(run == &first ? "40" : "10") + R"(,"text":"resumed here"})" +
                                   "\n");
    records.push_back(run->record());
  }
  const std::string page = report_page(records, kReportTime);
  CHECK(count_in(page, "class=\"restart\"") > count_in(first.page(), "class=\"restart\""));
}

TEST_CASE("a record of an empty or damaged folder says what is missing") {
  FaultyFilesystem files;
  RecordedRun run(files);
  REQUIRE(run.record().notes.size() == 2);
  CHECK_THAT(run.record().notes[0], contains("no rows in metrics.jsonl"));
  CHECK_THAT(run.record().notes[1], contains("there is no events.jsonl"));
  CHECK_THAT(run.page(), contains("no rows in metrics.jsonl"));
  run.write("run.json", "{\"status\":\"done\",");
  run.write("progress.json", std::string(200'000, '['));
  run.write("lr_find.csv", std::string("\0\xff,\n,,,\n", 9));
  run.write("events.jsonl", std::string(3'000'000, 'x') + "\n[" + std::string(200'000, '{') +
                                "\n{\"event\":\"error\",\"text\":\"fine\"}\n{\"event\":\"other\"}\n{\"ev");
  run.write("metrics.jsonl", "{\"step\":1,\"a\":1}\n{\"step\":2,\"a\":nope}\n{\"step\":3,");
  const RunRecord record = run.record();
  std::string notes;
  for (const std::string& note : record.notes) notes += note + "\n";
  CHECK_THAT(notes, contains("run.json is damaged"));
  CHECK_THAT(notes, contains("1 line "));
  CHECK_THAT(notes, contains("the last line is not complete"));
  CHECK_THAT(notes, contains("events.jsonl: 3 lines are not events"));
  CHECK(record.metrics.at("a").points() == 1);
  REQUIRE(record.events.size() == 1);
  CHECK_THAT(record.events[0], Catch::Matchers::EndsWith(" rank 0 error: fine"));
  CHECK_THAT(run.page(), contains("run.json is damaged"));
}

TEST_CASE("a record follows no link") {
  FaultyFilesystem files;
  RecordedRun run(files);
  run.write("secret", "lr,loss\n1e-3,1\n");
  files.link("secret", run.path() + "/lr_find.csv");
  const RunRecord record = run.record();
  CHECK(record.lr_sweep.points() == 0);
  CHECK_THAT(record.notes.at(1), contains("lr_find.csv is a link"));
  run.write("others", R"({"event":"error","text":"of another run"})"
                      "\n");
  files.link("others", run.path() + "/events.jsonl");
  CHECK(run.record().events.empty());
}

TEST_CASE("a record has bounded numbers of metrics, marks and events") {
  FaultyFilesystem files;
  RecordedRun run(files);
  std::string rows, events;
  for (int i = 0; i < 5000; ++i) {
    rows += "{\"step\":" + std::to_string(i) + ",\"m" + std::to_string(i) + "\":1}\n";
    events += R"({"event":"warning","text":")" + std::string(5000, 'w') + "\"}\n";
  }
  run.write("metrics.jsonl", rows + "{\"step\":1,\"" + std::string(100'000, 'n') + "\":1}\n");
  run.write("events.jsonl", events);
  const RunRecord record = run.record();
  CHECK(record.metrics.size() == 200);
  CHECK(record.events.size() == 200);
  CHECK(record.events[0].size() < 1000);
  CHECK_THAT(record.notes.at(0), contains("4801 values were left out"));
  CHECK(run.page().size() < 2'000'000);
}

TEST_CASE("a page runs nothing that a name or a text of a run says") {
  FaultyFilesystem files;
  const std::string attack = "</title></pre><script>alert(1)</script><img src=x onerror=alert(1)>\\\"'&";
  RecordedRun run(files, "/<script>alert(2)<");
  run.write("metrics.jsonl", "{\"step\":1,\"" + attack + "\":1}\n{\"step\":2,\"train_" + attack + "\":1}\n" +
                                 "{\"step\":3,\"lr-" + attack + "\":1}\n");
  run.write("config.yaml", "model: " + attack + "\n");
  run.write(
      "events.jsonl",
      text_of_json(json_of(RunEvent{.text = attack + "\x1b[31m\xc2\x9b"})) + "\n" +
          text_of_json(json_of(RunEvent{.event = RunEvent::Kind::devices, .text = attack})) + "\n" +
          text_of_json(json_of(RunEvent{.event = RunEvent::Kind::straggler, .step = 2, .text = attack})) +
          "\n");
  run.write("run.json",
            R"({"status":"<script>x","strategy":"<script>y","exit_code":0,"world_size":"<script>z"})");
  run.write("progress.json", R"({"host":"<script>h","metrics":{"<script>m":1}})");
  const std::string page = run.page();
  CHECK(count_in(page, "<script") == 1);
  CHECK(count_in(page, "<script nonce=") == 1);
  CHECK(count_in(page, "<img") == 0);
  CHECK(page.find('\x1b') == std::string::npos);
  CHECK(count_in(page, "&lt;script&gt;") > 5);
  CHECK_THAT(page, contains("default-src 'none'"));
  // Nothing is loaded; SVG's namespace is a name.
  CHECK(count_in(page, "http") ==
        count_in(page, "http-equiv") + count_in(page, "http://www.w3.org/2000/svg"));
  CHECK(count_in(page, "url(") == 0);
  CHECK(count_in(page, "@import") == 0);
}

TEST_CASE("a page shows values that are not finite, and metrics without any other") {
  FaultyFilesystem files;
  RecordedRun run(files);
  run.write("metrics.jsonl",
            "{\"step\":1,\"a\":1,\"b\":null}\n{\"step\":2,\"a\":null,\"b\":null}\n{\"step\":3,\"a\":1e300}\n"
            "{\"step\":4,\"a\":3}\n");
  const std::string page = run.page();
  CHECK_THAT(page, contains("a is not finite at step 2"));
  CHECK_THAT(page, contains("no finite value"));
  CHECK_THAT(page, contains("2 not finite"));
  CHECK(count_in(page, "=\"nan\"") > 0);
  const std::size_t charts = page.find("<div class=\"charts\">");
  for (const char* bad : {"Mnan", "L-nan", "inf\"", " nan", "Linf"})
    CHECK(page.find(bad, charts) == std::string::npos);
}

TEST_CASE("runs side by side have colours, and the differences of their configurations are marked") {
  FaultyFilesystem files;
  RecordedRun first(files, "/a"), second(files, "/b");
  first.write_rows(20);
  second.write_rows(30);
  second.write("config.yaml", "trainer:\n  max_epochs: 31\n  plugin:\n    - a.so\nseed: 1\n");
  const std::vector<RunRecord> records{first.record(), second.record()};
  const std::string page = report_page(records, kReportTime);
  CHECK_THAT(page, contains("a/version_0"));
  CHECK_THAT(page, contains("b/version_0"));
  CHECK(count_in(page, "data-n=\"a/version_0 train\"") == 1);
  CHECK(count_in(page, "data-n=\"b/version_0 train\"") == 1);
  CHECK_THAT(page, contains("<mark>  max_epochs: 30</mark>"));
  CHECK_THAT(page, contains("<mark>  max_epochs: 31</mark>"));
  CHECK(count_in(page, "<mark>") == 2);
  CHECK_THAT(page, contains("<td>trainer.max_epochs</td><td>30</td><td>31</td>"));
}

TEST_CASE("lines of a configuration have the keys of the options") {
  const auto lines = config_lines("a: 1\nb:\n  c: x: y\n  d:\n    - one\n    - two\ne: \"\"\n\n- odd\n");
  std::string keys;
  for (const ConfigLine& line : lines) keys += line.key + "=" + line.value + ";";
  CHECK(keys == "a=1;=;b.c=x: y;=;b.d[- one]=- one;b.d[- two]=- two;e=\"\";=;=;");
  const auto differences = config_differences({config_lines("a: 1\nb: 2\n"), config_lines("b: 2\nc: 3\n")});
  CHECK(differences == std::map<std::string, std::vector<std::string>>{{"a", {"1", ""}}, {"c", {"", "3"}}});
}

std::string in_field(char key, const std::string& content) {
  std::string size;
  for (std::size_t rest = content.size();; rest >>= 7) {
    size += static_cast<char>((rest & 0x7f) | (rest < 0x80 ? 0 : 0x80));
    if (rest < 0x80) return key + size + content;
  }
}

/// A record of one value, whose field `member` is `content`.
std::string event_record(std::int64_t step, double seconds,
                         const std::string& member = std::string("\x15\0\0\0\0", 5)) {
  std::string event = "\x09";
  for (std::size_t i = 0; i < sizeof seconds; ++i)
    event += static_cast<char>(std::bit_cast<std::uint64_t>(seconds) >> (8 * i) & 0xff);
  event += "\x10";
  for (auto rest = static_cast<std::uint64_t>(step);; rest >>= 7) {
    if (rest < 0x80) {
      event += static_cast<char>(rest);
      break;
    }
    event += static_cast<char>((rest & 0x7f) | 0x80);
  }
  return tf_record(event + in_field('\x2a', in_field('\x0a', member)));
}

TEST_CASE("the time of a step comes from TensorBoard's files, and not from a pause between two of them") {
  FaultyFilesystem files;
  RecordedRun run(files);
  run.write("events.out.tfevents.1.h.1", event_record(0, 100) + event_record(200, 102) +
                                             event_record(200, 110) + event_record(400, 112) + "cut");
  run.write("events.out.tfevents.2.h.1", event_record(450, 9000) + event_record(500, 9001));
  const Curve times = run.record().step_seconds;
  REQUIRE(times.points() == 3);
  CHECK(times.lowest().y == Approx(0.01));
  CHECK(times.highest().y == Approx(0.02));
  CHECK(times.highest().x == 500);
}

TEST_CASE("images and texts among the rows do not change the times of steps, nor do those that are large") {
  FaultyFilesystem files;
  RecordedRun run(files);
  const std::string image = in_field('\x22', in_field('\x22', std::string(GENERATE(10U, 3'000'000U), 'p')));
  const std::string text = in_field('\x42', in_field('\x42', "text"));
  run.write("events.out.tfevents.1.h.1", event_record(0, 100) + event_record(1, 100, image) +
                                             event_record(200, 102) + event_record(300, 102, text) +
                                             event_record(400, 102.5, image) + event_record(400, 104) +
                                             event_record(500, 104, image).substr(0, 2'000'000));
  const Curve times = run.record().step_seconds;
  REQUIRE(times.points() == 2);
  CHECK(times.lowest().y == Approx(0.01));
  CHECK(times.highest().y == Approx(0.01));
}

TEST_CASE("an events file of another program, or a damaged one, gives no times") {
  FaultyFilesystem files;
  RecordedRun run(files);
  run.write("events.out.tfevents.1.h.1", std::string(100, '\xff'));
  run.write("events.out.tfevents.2.h.1",
            tf_record("\x0f\xff\xff") + tf_record("") + tf_record("\x2a\xff\xff\xff\x7f"));
  CHECK(run.record().step_seconds.points() == 0);
}

TEST_CASE("text is escaped for HTML") {
  CHECK(escape_html("a<b>&\"'\x1b\xff") == "a&lt;b&gt;&amp;&quot;&#39;??");
}

}  // namespace
}  // namespace cxtrain::test
