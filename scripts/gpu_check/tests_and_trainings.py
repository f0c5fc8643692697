"""2: the GPU tests, one check for each of their cases, and trainings that learn."""

import xml.etree.ElementTree as tree

from checks import check
from report import NotMeasurable
from trainings import learns


@check(2, "gpu_tests", "every case passes")
def gpu_tests(machine, outcome):
    report = machine.folder() / "gpu_tests.xml"
    done = machine.run([machine.program("gpu_tests"), "--reporter", "junit", "--out", report], seconds=500, gpus=99)
    if done.status == 77:
        raise NotMeasurable(done.output.splitlines()[-1])
    cases = results(report)
    skipped = {}
    for line in done.output.splitlines():
        if line.startswith("skipped: "):
            name, _, reason = line.removeprefix("skipped: ").partition(": ")
            skipped[name] = reason
    for name, (seconds, problems) in cases.items():
        part = outcome.part(name, "passes")
        part.seconds = seconds
        if problems:
            part.fail(problems)
        elif name in skipped:
            part.reason = skipped[name]
    outcome.figure("cases", len(cases))
    if not cases or (done.status != 0 and not any(problems for _, problems in cases.values())):
        outcome.fail(f"exit status {done.status} after {len(cases)} cases: {done.tail()}")


def results(report):
    """Seconds and problems of each case in a JUnit file."""
    found = {}
    for case in tree.parse(report).getroot().iter("testcase"):
        name = case.get("name")
        name = case.get("classname", "").split(".")[-1] if name == "root" else name.split("/")[0]
        name = name or case.get("name")
        problems = [p for kind in ("failure", "error") for p in case.findall(kind)]
        text = " ".join((p.get("message") or "") + " " + (p.text or "").strip() for p in problems)
        seconds, before = found.get(name, (0.0, ""))
        found[name] = (seconds + float(case.get("time") or 0), " ".join((before + " " + text).split())[:500])
    return found


EXPECTED = "it ends with status 0, the loss falls by a tenth, run.json agrees with the metrics"
GPT = ["--model", "gpt", "--model.layers", 2, "--model.width", 64, "--model.context", 64, "--model.warmup", 10]
GPT += ["--model.sample_bytes", 0, "--limit_val_batches", 5]


def training(name, options, precision, rehearsed, tiny=()):
    @check(2, f"training: {name}, {precision}", EXPECTED, needs=None if rehearsed else "gpu")
    def trains(machine, outcome):
        learns(machine, outcome, options + machine.size([], list(tiny)), precision=precision,
               says=machine.size(["cuda:0"], []))


for each in ("32-true", "16-mixed"):
    training("digits", ["--model", "digits", "--max_epochs", 4], each, rehearsed=each == "32-true")
    training("gpt", GPT + ["--max_steps", 150], each, rehearsed=False)


@check(2, "training: MNIST", EXPECTED, needs="gpu")
def mnist(machine, outcome):
    if machine.options.mnist is None:
        raise NotMeasurable("--data names no folder that holds MNIST's IDX files")
    learns(machine, outcome, ["--model", "mnist", "--data.path", machine.options.mnist, "--max_epochs", 1],
           precision="16-mixed")
