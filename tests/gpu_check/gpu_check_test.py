"""scripts/gpu_check on a machine without a GPU: its rehearsal passes, a planted failure fails it, and what it finds is
told truly.

    gpu_check_test.py <project folder> <build folder>
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
PROJECT, BUILD = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
sys.path.insert(0, str(PROJECT / "scripts" / "gpu_check"))

import checks  # noqa: E402
import measurements  # noqa: E402
import report  # noqa: E402
import tests_and_trainings  # noqa: E402

REHEARSED = [  # what is not about the device, and so has to pass anywhere
    "info",
    "plan",
    "ldd",
    "env -i",
    "training: digits, 32-true",
    "synchronised batch norm",
    "gradients into a bucket",
    "two ranks, --bind-to none",
    "two ranks of a core each",
    "kill -9 of a rank",
    "kill -STOP of a rank",
    "a label out of range, one rank",
    "a label out of range, two ranks",
    "batch size search with too little memory",
]
BENCHMARKED = [
    "step time: gpt 4 x 128, float32",
    "step time: gpt 12 x 768, bf16-mixed",
    "step time: MNIST CNN, float32",
]


def gpu_check(*arguments, **env):
    """Exit status, output and report of scripts/gpu_check.sh on the build."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.json"
        command = [PROJECT / "scripts" / "gpu_check.sh", "--build", BUILD, "--report", path, *arguments]
        done = subprocess.run(
            list(map(str, command)),
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return done.returncode, done.stdout, json.loads(path.read_text()) if path.exists() else None


def outcome_of(run, needs=None, machine=None):
    return checks.run(checks.Check(1, "name", "expectation", needs, run), machine)


class Rehearsal(unittest.TestCase):
    def test_what_is_not_about_the_device_passes_and_the_rest_says_why_not(self):
        status, output, found = gpu_check("--rehearse")
        self.assertEqual(status, 0, output)
        self.assertTrue(found["passed"])
        self.assertTrue(found["rehearsal"])
        self.assertIn("cxtrain", found["program"])
        by_name = {check["name"]: check for check in found["checks"]}
        self.assertEqual(len(by_name), len(found["checks"]), "two checks of one name")
        self.assertEqual({check["item"] for check in found["checks"]}, set(range(1, 12)))
        for check in found["checks"]:
            with self.subTest(check["name"]):
                self.assertTrue(check["expectation"])
                self.assertIn(check["verdict"], ("passed", "not measurable"))
                if check["verdict"] == "not measurable":
                    self.assertTrue(check["detail"], "it does not say why")
                for figure in check["figures"]:
                    self.assertEqual(set(figure), {"name", "value", "unit"})
                self.assertIn(check["name"], output)
        benchmarks = BENCHMARKED if (BUILD / "bin" / "bench_floor_loop").exists() else []
        for name in REHEARSED + benchmarks:
            self.assertEqual(by_name[name]["verdict"], "passed", name)
        for name in benchmarks + ["kill -9 of a rank", "synchronised batch norm"]:
            self.assertTrue(by_name[name]["figures"], name)


class PlantedFailures(unittest.TestCase):
    def with_program(self, script, only):
        """The report where cxtrain_mpi is this shell script, which has the true one's path in $program."""
        with tempfile.TemporaryDirectory() as folder:
            for program in (BUILD / "bin").iterdir():
                (pathlib.Path(folder) / program.name).symlink_to(program)
            planted = pathlib.Path(folder) / "cxtrain_mpi"
            planted.unlink()
            planted.write_text(f"#!/bin/bash\nprogram={BUILD}/bin/cxtrain_mpi\n{script}\n")
            planted.chmod(0o755)
            return gpu_check("--rehearse", "--only", only, "--bin", folder)

    def test_a_wrong_exit_status_fails_the_report(self):
        status, output, found = self.with_program('"$program" "$@"; exit 0', "9")
        self.assertEqual(status, 1, output)
        self.assertFalse(found["passed"])
        verdicts = {check["name"]: check["verdict"] for check in found["checks"]}
        self.assertEqual(verdicts["a label out of range, one rank"], "failed")
        self.assertEqual(verdicts["batch size search with too little memory"], "passed")
        self.assertIn("exit status is 0, expected 1", output)

    def test_a_program_that_says_nothing_fails_the_report(self):
        status, output, found = self.with_program("exit 0", "1")
        self.assertEqual(status, 1, output)
        self.assertEqual([c["verdict"] for c in found["checks"] if c["name"] in ("info", "plan")], ["failed"] * 2)


class CommandLine(unittest.TestCase):
    def test_without_a_gpu_the_check_fails(self):
        status, output, found = gpu_check(CUDA_VISIBLE_DEVICES="")
        self.assertEqual(status, 1, output)
        self.assertEqual([check["name"] for check in found["checks"]], ["GPU present"])
        self.assertEqual(found["checks"][0]["verdict"], "failed")

    def test_wrong_words_are_refused(self):
        for words in (["--reheerse"], ["--report"], ["--data", "/nowhere"], ["--build", "/nowhere"], ["--only", "x"]):
            self.assertEqual(gpu_check(*words)[0], 2, words)

    def test_it_is_not_started_by_mpirun(self):
        self.assertEqual(gpu_check("--rehearse", "--only", "1", OMPI_COMM_WORLD_RANK="0")[0], 2)


class Verdicts(unittest.TestCase):
    def test_limits(self):
        for value, verdict in ((2.0, "passed"), (2.1, "failed"), (float("nan"), "failed")):
            self.assertEqual(outcome_of(lambda _, outcome: outcome.at_most("x", value, 2)).verdict, verdict, value)
        for value, verdict in ((2.0, "passed"), (1.9, "failed"), (float("nan"), "failed")):
            self.assertEqual(outcome_of(lambda _, outcome: outcome.at_least("x", value, 2)).verdict, verdict, value)

    def test_what_is_thrown_is_a_failure_unless_it_says_that_it_cannot_be_measured(self):
        def breaks(machine, outcome):
            raise KeyError("samples_per_second")

        def cannot(machine, outcome):
            raise report.NotMeasurable("no tool")

        self.assertEqual(outcome_of(breaks).verdict, "failed")
        self.assertIn("samples_per_second", outcome_of(breaks).detail)
        self.assertEqual(outcome_of(cannot).verdict, "not measurable")
        self.assertEqual(outcome_of(cannot).detail, "no tool")

    def test_a_report_of_nothing_but_what_could_not_be_measured_has_not_passed(self):
        nothing = report.Report({})
        nothing.outcomes = [report.Outcome(1, "a", "b")]
        self.assertTrue(nothing.passed)
        nothing.outcomes[0].reason = "no tool"
        self.assertFalse(nothing.passed)

    def test_json_has_no_number_that_is_none(self):
        outcome = outcome_of(lambda _, outcome: outcome.at_most("x", float("nan"), 2))
        self.assertEqual(outcome.as_json()["figures"], [{"name": "x", "value": None, "unit": ""}])

    def test_two_gpus_are_asked_for_where_they_are_needed(self):
        class OneGpu:
            rehearse, gpus = False, [{}]

        self.assertIn("two GPUs", checks.missing(OneGpu, "two gpus"))
        self.assertIsNone(checks.missing(OneGpu, "gpu"))


class Reading(unittest.TestCase):
    def test_cases_of_a_junit_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(
                """<testsuites><testsuite>
                <testcase classname="gpu_tests.good one" name="root" time="0.5"/>
                <testcase classname="gpu_tests.bad one" name="root" time="1">
                <failure message="a == b">1 == 2</failure></testcase>
                <testcase classname="gpu_tests" name="bad one/section" time="2"/></testsuite></testsuites>"""
            )
            file.flush()
            found = tests_and_trainings.results(file.name)
        self.assertEqual(found["good one"], (0.5, ""))
        self.assertEqual(found["bad one"], (3.0, "a == b 1 == 2"))

    def test_the_bus_of_the_first_gpu(self):
        class Listed:
            output = "GPU-1, 4, 16\nGPU-2, 5, 16\nGPU-3, [N/A], [N/A]\n"

        class Machine:
            gpus = [{"uuid": "GPU-2"}]

            def run(self, *unused, **more):
                return Listed

        self.assertAlmostEqual(measurements.bus_bandwidth(Machine()), 63.0, places=1)
        Machine.gpus = [{"uuid": "GPU-3"}]
        self.assertIsNone(measurements.bus_bandwidth(Machine()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
