#pragma once

#include <cerrno>
#include <cstdint>
#include <functional>

#include "cxtrain/base/filesystem.h"
#include "support/catch.h"
#include "support/faulty_filesystem.h"

namespace cxtrain::test {

/// Lets `work` run on a disk that `prepare` has filled: on a new one for each of its calls, which crashes
/// there, and once to its end. `check` gets what the disk may hold afterwards, in 100 variants of each, and
/// whether `work` had come to its end.
inline void crash_at_every_call(const std::function<void(FaultyFilesystem&)>& prepare,
                                const std::function<void(FaultyFilesystem&)>& work,
                                const std::function<void(FaultyFilesystem& disk, bool finished)>& check) {
  bool finished = false;
  for (std::size_t call = 0; !finished; ++call) {
    FaultyFilesystem files;
    prepare(files);
    files.crash_at(files.calls() + call);
    try {
      work(files);
      finished = true;
    } catch (const Crash&) {
    }
    REQUIRE((!finished || call > 0));  // a test without a crash tests nothing
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      INFO("a crash at call " << call << ", seed " << seed);
      FaultyFilesystem disk = files.after_crash(seed);
      check(disk, finished);
    }
  }
}

/// Lets `work` run on a new disk for each of its calls, which fails there: in several ways, once or
/// lastingly. `check` gets the disk as other processes see it after `work`, which works again by then.
inline void fail_at_every_call(const std::function<void(FaultyFilesystem&)>& prepare,
                               const std::function<void(FaultyFilesystem&)>& work,
                               const std::function<void(FaultyFilesystem& files, bool lasting)>& check) {
  for (const int error : {ENOSPC, EIO, EDQUOT, EROFS, ESTALE}) {
    for (const bool lasting : {false, true}) {
      for (const std::size_t bytes : {0, 1, 10}) {
        std::size_t call = 0;
        for (bool failed = true; failed; ++call) {
          INFO("call " << call << " fails with " << error << (lasting ? ", later ones as well" : "")
                       << ", or writes " << bytes << " bytes");
          FaultyFilesystem files;
          prepare(files);
          files.fail({.call = files.calls() + call, .error = error, .bytes = bytes, .lasting = lasting});
          work(files);
          failed = files.failed().has_value();
          files.heal();
          check(files, lasting);
        }
        REQUIRE(call > 1);
      }
    }
  }
}

}  // namespace cxtrain::test
