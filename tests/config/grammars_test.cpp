#include "support/catch.h"
#include "support/error_text.h"

#include "config/resolve_support.h"
#include "cxtrain/config/devices.h"
#include "cxtrain/config/did_you_mean.h"
#include "cxtrain/config/values.h"

using namespace cxtrain;
using namespace cxtrain::testing;

TEST_CASE("numbers and switches are read whole or not at all", "[config]") {
  CHECK(parse_integer(" 42 ") == 42);
  CHECK(parse_integer("+3") == 3);
  CHECK(parse_integer("-1") == -1);
  for (const char* text : {"", "4.0", "1e3", "ten", "3x", "+-3", "++3", "99999999999999999999"}) {
    INFO(text);
    CHECK_FALSE(parse_integer(text));
  }
  CHECK(parse_real("3e-4") == 3e-4);
  CHECK_FALSE(parse_real("1,5"));
  CHECK(parse_boolean("Yes") == true);
  CHECK(parse_boolean("off") == false);
  CHECK_FALSE(parse_boolean("2"));
}

TEST_CASE("a real number is written so that it reads back as the same", "[config]") {
  for (const double value : {0.1, 3e-4, 1.0 / 3, 1e300, 5e-324, -2.5, 1800.0})
    CHECK(parse_real(format_real(value)) == value);
  CHECK(format_real(0.1) == "0.1");
}

TEST_CASE("batch limits are counts or fractions", "[config]") {
  const auto limit = [](const char* text) { return *parse_batch_limit(text); };
  CHECK(limit("10") == BatchLimit{std::int64_t{10}});
  CHECK(limit("1") == BatchLimit{std::int64_t{1}});
  CHECK(limit("1.0") == BatchLimit{1.0});
  CHECK(limit("0.5") == BatchLimit{0.5});
  CHECK(limit("5e-1") == BatchLimit{0.5});
  for (const char* text : {"-1", "-0.5", "1.5", "many", "", "nan", "inf"}) {
    INFO(text);
    const auto refused = parse_batch_limit(text);
    CHECK_FALSE(refused);
    CHECK_THAT(refused.error, test::contains("'" + std::string(text) + "'"));
  }
  for (const char* text : {"0", "10", "1.0", "0.25", "0.0"}) CHECK(format_batch_limit(limit(text)) == text);
}

TEST_CASE("a validation comes after batches, a part of an epoch, or a time", "[config]") {
  CHECK(*parse_check_interval("10") == CheckInterval(std::int64_t{10}));
  CHECK(*parse_check_interval("0.25") == CheckInterval(0.25));
  CHECK(*parse_check_interval("00:15:00") == CheckInterval(std::chrono::minutes(15)));
  for (const char* text : {"10", "0.25", "01:00:15:00"})
    CHECK(format_check_interval(*parse_check_interval(text)) == text);
  for (const char* text : {"", "-1", "1.5", "1:2", "00:x:00"}) CHECK_FALSE(parse_check_interval(text));
}

TEST_CASE("a batch limit picks batches of a loader", "[config]") {
  CHECK(BatchLimit{0.5}.apply(7) == 3);
  CHECK(BatchLimit{1.0}.apply(7) == 7);
  CHECK(BatchLimit{std::int64_t{3}}.apply(7) == 3);
  CHECK(BatchLimit{std::int64_t{30}}.apply(7) == 7);
  CHECK(BatchLimit{0.0}.apply(7) == 0);
}

TEST_CASE("a fraction that means less than one batch is refused with the arithmetic", "[config]") {
  CHECK(limited_batches({0.5}, "limit_val_batches", 7) == 3);
  CHECK(limited_batches({0.0}, "limit_val_batches", 7) == 0);
  CHECK(limited_batches({std::int64_t{0}}, "limit_val_batches", 7) == 0);
  CHECK(limited_batches({0.01}, "limit_val_batches", 0) == 0);
  CHECK_THAT(test::error_of([&] { limited_batches({0.01}, "limit_val_batches", 8); }),
             test::contains(test::code(MessageCode::out_of_range)) &&
                 test::contains("--limit_val_batches:") && test::contains("--limit_val_batches 0.125") &&
                 test::contains("8 batches") && test::contains("0.01") && test::contains("0.08"));
  CHECK(limited_batches({0.0834}, "limit_val_batches", 12) == 1);
}

TEST_CASE("max_time", "[config]") {
  using std::chrono::hours;
  using std::chrono::seconds;
  CHECK(*parse_duration("00:00:00:30") == seconds(30));
  CHECK(*parse_duration("01:12:00:00") == hours(36));
  CHECK(*parse_duration("02:00:05") == seconds(7205));
  CHECK(*parse_duration("00:36:00:00") == hours(36));
  CHECK(format_duration(hours(36) + seconds(61)) == "01:12:01:01");
  CHECK(format_duration(*parse_duration("999999:00:00:59")) == "999999:00:00:59");
  for (const char* text :
       {"", "90", "1:30", "1:2:3:4:5", "00:00:-1:00", "a:b:c:d", "00::00:00", "00:00:00:00:", "1h"}) {
    INFO(text);
    CHECK_FALSE(parse_duration(text));
    CHECK_THAT(parse_duration(text).error, test::contains("DD:HH:MM:SS"));
  }
}

TEST_CASE("precision in all of Lightning's spellings", "[config]") {
  const std::vector<std::pair<std::string, std::string>> table{
      {"16", "16-mixed"},     {"32", "32-true"},          {"64", "64-true"},
      {"bf16", "bf16-mixed"}, {"16-mixed", "16-mixed"},   {"bf16-mixed", "bf16-mixed"},
      {"16-true", "16-true"}, {"bf16-true", "bf16-true"}, {"32-true", "32-true"},
      {"64-true", "64-true"}};
  for (const auto& [typed, name] : table) {
    INFO(typed);
    REQUIRE(parse_precision(typed));
    CHECK(parse_precision(typed).value->name == name);
    CHECK(parse_precision(typed).value->shorthand == (typed.find('-') == std::string::npos));
  }
  for (const char* text : {"", "8", "fp16", "16-bit", "32-mixed"}) CHECK_FALSE(parse_precision(text));
  CHECK_THAT(parse_precision("fp16").error, test::contains("'fp16'") && test::contains("bf16-mixed"));
}

TEST_CASE("device lists: what is asked for", "[config]") {
  const auto wanted = [](const char* text) { return parse_device_list(text).value.value().wanted; };
  CHECK(wanted("auto") == decltype(DeviceList::wanted){DeviceList::Auto{}});
  CHECK(wanted("-1") == decltype(DeviceList::wanted){DeviceList::All{}});
  CHECK(wanted("[-1]") == decltype(DeviceList::wanted){DeviceList::All{}});
  CHECK(wanted("2") == decltype(DeviceList::wanted){2});
  CHECK(wanted(" 2 ") == decltype(DeviceList::wanted){2});
  CHECK(wanted("0,2") == decltype(DeviceList::wanted){List{0, 2}});
  CHECK(wanted("[2, 0]") == decltype(DeviceList::wanted){List{2, 0}});
  CHECK(wanted("1,") == decltype(DeviceList::wanted){List{1}});
  CHECK(wanted("[1]") == decltype(DeviceList::wanted){List{1}});
  CHECK(wanted("0") == decltype(DeviceList::wanted){List{}});
  CHECK(wanted("[]") == decltype(DeviceList::wanted){List{}});
  CHECK_FALSE(parse_device_list(",").value);
  CHECK_FALSE(parse_device_list("[,]").value);
  CHECK_FALSE(parse_device_list("100001").value);
  for (const char* text :
       {"", "two", "2.5", "-2", "0,-1", "0,0", "0,,1", "[0,1", "0,1]", "0;1", "0-3", ",0", "0,1,x"}) {
    INFO(text);
    CHECK_FALSE(parse_device_list(text));
    CHECK_THAT(parse_device_list(text).error, test::contains(text));
  }
  CHECK_THAT(parse_device_list("0,2,0").error, test::contains("device 0 twice"));
}

TEST_CASE("device lists: what the machine has", "[config]") {
  const auto pick = [](const char* text, int available) {
    return pick_devices(*parse_device_list(text), available);
  };
  CHECK(*pick("-1", 3) == std::vector{0, 1, 2});
  CHECK(*pick("2", 3) == std::vector{0, 1});
  CHECK(*pick("2,0", 3) == std::vector{2, 0});
  CHECK_THAT(pick("4", 2).error, test::contains("4 GPUs") && test::contains("2"));
  CHECK_THAT(pick("0,7,9", 8).error, test::contains("GPU 9") && test::contains("8") && test::contains("7"));
  CHECK_THAT(pick("3", 0).error, test::contains("3 GPUs"));
  CHECK_THAT(pick("1,", 1).error, test::contains("GPU 1"));
}

TEST_CASE("the nearest name", "[config]") {
  const std::vector<std::string> names{"max_epochs", "max_steps", "precision", "lr"};
  CHECK(nearest_name("max_epoch", names) == "max_epochs");
  CHECK(nearest_name("mxa_epochs", names) == "max_epochs");  // neighbours swapped
  CHECK(nearest_name("percision", names) == "precision");
  CHECK(nearest_name("lr", names) == "lr");
  CHECK(nearest_name("MAX_EPOCHS", names) == "max_epochs");
  CHECK(nearest_name(std::string(100'000, 'l'), names).empty());
  CHECK(nearest_name("rl", names) == "lr");
  CHECK(nearest_name("banana", names).empty());
  CHECK(nearest_name("x", names).empty());
  CHECK(nearest_name("", names).empty());
  CHECK_THAT(did_you_mean("max_step", names, "--"), test::contains("--max_steps"));
  CHECK(did_you_mean("banana", names).empty());
}
