#include "cxtrain/scaling/study.h"

#include <algorithm>
#include <map>
#include <set>

#include "cxtrain/base/json_fields.h"
#include "cxtrain/base/text.h"
#include "support/catch.h"
#include "support/error_text.h"

namespace cxtrain {
namespace {

const Study kStudy{.mode = ScalingMode::strong,
                   .sizes = {{1, 1}, {2, 1}, {4, 2}, {8, 2}},
                   .rounds = 5,
                   .batch_size = 64,
                   .options = {"--model", "mnist"}};

TEST_CASE("each round has every size once, and rounds differ in their order", "[scaling]") {
  std::map<int, std::set<int>> ranks;
  std::set<std::string> orders;
  std::map<int, std::string> order;
  for (const StudyPoint& point : schedule_of(kStudy)) {
    CHECK(ranks[point.round].insert(point.size.ranks).second);
    order[point.round] += point.folder() + " ";
  }
  CHECK(ranks.size() == 5);
  for (const auto& [round, found] : ranks) CHECK(found.size() == 4);
  for (auto& [round, text] : order) {
    for (std::size_t at; (at = text.find("-k" + std::to_string(round))) != std::string::npos;)
      text.erase(at, std::string("-k1").size());
    orders.insert(text);
  }
  CHECK(orders.size() > 1);
}

TEST_CASE("rounds that are added leave the earlier rounds as they are", "[scaling]") {
  Study more = kStudy;
  more.rounds = 7;
  const std::vector<StudyPoint> before = schedule_of(kStudy), after = schedule_of(more);
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(before[i].folder() == after[i].folder());
  CHECK(after.size() == 28);
}

TEST_CASE("the options of a training: the study's own come last", "[scaling]") {
  const std::string text = joined(options_of_point(kStudy, {8, 2}, "S/points/x"), " ");
  CHECK_THAT(text,
             Catch::Matchers::StartsWith("--model mnist --devices=4 --num_nodes=2 --data.batch_size=8 "));
  CHECK_THAT(text, test::contains("--default_root_dir=S/points/x"));
  CHECK_THAT(text, test::contains("--enable_checkpointing=false"));
  for (const char* const typed :
       {"--enable_checkpointing=true", "--trainer.enable_checkpointing", "--enable-checkpointing"}) {
    Study saves = kStudy;
    saves.options.emplace_back(typed);
    CHECK_THAT(joined(options_of_point(saves, {8, 2}, "."), " "),
               !test::contains("--enable_checkpointing=false"));
  }
  Study weak = kStudy;
  weak.mode = ScalingMode::weak;
  CHECK(joined(options_of_point(weak, {2, 1}, "."), " ").find("batch_size") == std::string::npos);
}

TEST_CASE("a study that a file holds is looked at before it is used", "[scaling]") {
  CHECK(fault_of(kStudy).empty());
  Study study = kStudy;
  study.rounds = 1'000'000'000;
  CHECK_FALSE(fault_of(study).empty());
  for (const std::vector<StudySize>& sizes :
       std::vector<std::vector<StudySize>>{{}, {{1, 2}}, {{2, 1}, {1, 1}}, {{1, 1}, {1, 1}}}) {
    study = kStudy;
    study.sizes = sizes;
    CHECK_FALSE(fault_of(study).empty());
  }
}

TEST_CASE("study.json is read as it was written", "[scaling]") {
  const auto read = parse_struct<Study>(text_of_json(json_of(kStudy)));
  REQUIRE(read);
  CHECK(text_of_json(json_of(*read)) == text_of_json(json_of(kStudy)));
}

}  // namespace
}  // namespace cxtrain
