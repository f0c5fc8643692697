#include "cxtrain/base/log.h"

#include <cerrno>
#include <nlohmann/json.hpp>

#include "cxtrain/base/run_event.h"
#include "support/catch.h"
#include "support/faulty_filesystem.h"

using namespace cxtrain;

TEST_CASE("every record is a line of the rank's log file, as far as the disk takes it", "[log]") {
  test::FaultyFilesystem files;
  {
    Log log(/*rank=*/7, /*quiet=*/true);
    log.open_file(files, "/");
    log_info("the first");
    CHECK_THAT(read_whole_file(files, "/rank_7.log"), Catch::Matchers::EndsWith(" rank 7 info: the first\n"));
    files.fail({.call = files.calls(), .error = ENOSPC, .bytes = 5, .lasting = true});
    CHECK_NOTHROW(log_info("lost"));
    files.heal();
    log_info("the last");
    files.make_directory("/next");
    log.open_file(files, "/next");
    log_info("elsewhere");
    CHECK(read_whole_file(files, "/next/rank_7.log").ends_with(" rank 7 info: elsewhere\n"));
  }
  log_info("after the log has gone");
  const std::string text = read_whole_file(files, "/rank_7.log");
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK(text.find("lost") == std::string::npos);
  CHECK_THAT(text, Catch::Matchers::EndsWith(" rank 7 info: the last\n"));

  Log log(7, true);
  CHECK_THROWS_WITH(log.open_file(files, "/none"), test::contains("cannot open '/none/rank_7.log'"));
}

TEST_CASE("warnings, errors and other events are lines of the rank's events file, by fields", "[log]") {
  test::FaultyFilesystem files;
  files.make_directory("/run");
  Log log(/*rank=*/7, /*quiet=*/true);
  log.open_file(files, "/run");
  log_info("no event");
  CHECK_FALSE(files.status("/run/events_rank_7.jsonl"));
  log_warning("slow", {.event = RunEvent::Kind::straggler, .step = 3});
  log_event({.event = RunEvent::Kind::lr_found, .lr = 0.5});
  log_error("two\nlines");
  const std::string log_text = read_whole_file(files, "/run/rank_7.log");
  CHECK(std::count(log_text.begin(), log_text.end(), '\n') == 4);  // one line of them has two

  std::vector<nlohmann::json> events;
  std::istringstream lines(read_whole_file(files, "/run/events_rank_7.jsonl"));
  for (std::string line; std::getline(lines, line);) events.push_back(nlohmann::json::parse(line));
  REQUIRE(events.size() == 3);
  CHECK((events[0]["event"] == "straggler" && events[0]["rank"] == 7 && events[0]["step"] == 3));
  CHECK((events[0]["text"] == "slow" && events[0]["time"] > 1.7e9));
  CHECK((events[1]["event"] == "lr_found" && events[1]["lr"] == 0.5));
  CHECK((events[2]["event"] == "error" && events[2]["text"] == "two\nlines"));
}

TEST_CASE("events follow those of an earlier run in the folder, whose last line may be cut", "[log]") {
  test::FaultyFilesystem files;
  write_atomically(files, "/events.jsonl", "{\"event\":\"err");
  Log log(/*rank=*/0, /*quiet=*/true);
  log.open_file(files, "/");
  log_event({.event = RunEvent::Kind::resumed, .step = 20});
  const std::string text = read_whole_file(files, "/events.jsonl");
  CHECK(text.starts_with("{\"event\":\"err\n{\"time\":"));
  CHECK(text.ends_with("\n"));
}
