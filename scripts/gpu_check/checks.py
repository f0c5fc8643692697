"""The list of checks, and how one is run."""

import time
import traceback

from report import NotMeasurable, Outcome

CHECKS = []


class Check:
    def __init__(self, item, name, expectation, needs, run):
        self.item, self.name, self.expectation, self.needs, self.run = item, name, expectation, needs, run


def check(item, name, expectation, needs=None):
    """Puts a function of a machine and an outcome on the list. `item`: its number in docs/gpu.md. `needs`: "gpu",
    "two gpus", or None for what a rehearsal on the CPU checks as well."""

    def add(run):
        CHECKS.append(Check(item, name, expectation, needs, run))
        return run

    return add


def missing(machine, needs):
    """Why this machine does not have what a check needs; None where it has."""
    if needs and machine.rehearse:
        return "a rehearsal has no GPU"
    if needs == "two gpus" and len(machine.gpus) < 2:
        return f"it needs two GPUs, and this machine shows {len(machine.gpus)}"
    return None


def run(entry, machine):
    """The outcome of one check. Whatever it throws is a failure of it, and the next one goes on."""
    outcome = Outcome(entry.item, entry.name, entry.expectation)
    begin = time.monotonic()
    outcome.reason = missing(machine, entry.needs)
    if outcome.reason is None:
        try:
            entry.run(machine, outcome)
        except NotMeasurable as reason:
            outcome.reason = str(reason)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            outcome.fail(f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})")
    outcome.seconds = time.monotonic() - begin
    return outcome
