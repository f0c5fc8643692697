#pragma once

/// Calls `visit("name", name)` for each of up to 64 members, in this order:
///
///     void fields(auto&& field) { CXTRAIN_EACH(field, path, version); }
#define CXTRAIN_EACH(visit, ...) CXTRAIN_SCAN_64(CXTRAIN_EACH_STEP(visit, __VA_ARGS__))
#define CXTRAIN_EACH_STEP(visit, member, ...) \
  visit(#member, member) __VA_OPT__(; CXTRAIN_EACH_NEXT CXTRAIN_PARENTHESES(visit, __VA_ARGS__))

// A macro does not expand within itself. So each step names the next one, and a further scan expands it.
#define CXTRAIN_EACH_NEXT() CXTRAIN_EACH_STEP
#define CXTRAIN_PARENTHESES ()
#define CXTRAIN_SCAN_64(...) CXTRAIN_SCAN_16(CXTRAIN_SCAN_16(CXTRAIN_SCAN_16(CXTRAIN_SCAN_16(__VA_ARGS__))))
#define CXTRAIN_SCAN_16(...) CXTRAIN_SCAN_4(CXTRAIN_SCAN_4(CXTRAIN_SCAN_4(CXTRAIN_SCAN_4(__VA_ARGS__))))
#define CXTRAIN_SCAN_4(...) CXTRAIN_SCAN(CXTRAIN_SCAN(CXTRAIN_SCAN(CXTRAIN_SCAN(__VA_ARGS__))))
#define CXTRAIN_SCAN(...) __VA_ARGS__
