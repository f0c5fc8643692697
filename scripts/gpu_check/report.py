"""What the checks found: a line each on the terminal, and all of it in one JSON file."""

import json
import math

PASSED, FAILED, NOT_MEASURABLE = "passed", "failed", "not measurable"


class NotMeasurable(Exception):
    """This machine cannot show what was to be checked; says why."""


class Outcome:
    """One check: what it expects, what it measured, and what of it was wrong. Passed where nothing was."""

    def __init__(self, item, name, expectation):
        self.item, self.name, self.expectation = item, name, expectation
        self.figures, self.problems, self.notes = [], [], []
        self.reason = None  # why it is not measurable
        self.seconds = 0.0
        self.parts = []  # checks of its own that came out of it

    def part(self, name, expectation):
        outcome = Outcome(self.item, name, expectation)
        self.parts.append(outcome)
        return outcome

    def figure(self, name, value, unit=""):
        self.figures.append({"name": name, "value": value, "unit": unit})

    def note(self, text):
        self.notes.append(text)

    def fail(self, text):
        self.problems.append(text)

    def expect(self, what, found, wanted):
        if found != wanted:
            self.fail(f"{what} is {found}, expected {wanted}")

    def at_most(self, name, value, limit, unit=""):
        self.figure(name, value, unit)
        if not value <= limit:  # also for NaN
            self.fail(f"{name}: {value:.4g} {unit}, more than {limit:.4g}".replace(" ,", ","))

    def at_least(self, name, value, limit, unit=""):
        self.figure(name, value, unit)
        if not value >= limit:
            self.fail(f"{name}: {value:.4g} {unit}, less than {limit:.4g}".replace(" ,", ","))

    @property
    def verdict(self):
        if self.problems:
            return FAILED
        return NOT_MEASURABLE if self.reason else PASSED

    @property
    def detail(self):
        return "; ".join(self.problems or ([self.reason] if self.reason else []) or self.notes)

    def as_json(self):
        return {
            "item": self.item,
            "name": self.name,
            "expectation": self.expectation,
            "verdict": self.verdict,
            "figures": [{**f, "value": f["value"] if math.isfinite(f["value"]) else None} for f in self.figures],
            "detail": self.detail,
            "seconds": round(self.seconds, 2),
        }

    def as_line(self):
        word = {PASSED: "passed", FAILED: "FAILED", NOT_MEASURABLE: "not measurable"}[self.verdict]
        figures = ", ".join(f"{f['name']} {f['value']:.4g} {f['unit']}".rstrip() for f in self.figures)
        text = "; ".join(part for part in (figures, self.detail) if part)
        return f"{word:<14}  {self.item:>2}  {self.name}  ({self.seconds:.1f} s)" + (f"  {text}" if text else "")


class Report:
    def __init__(self, facts):
        self.facts, self.outcomes = facts, []

    def add(self, outcome):
        self.outcomes.append(outcome)
        print(outcome.as_line(), flush=True)

    def count(self, verdict):
        return sum(outcome.verdict == verdict for outcome in self.outcomes)

    @property
    def passed(self):
        """Nothing failed, and not everything was left out."""
        return self.count(FAILED) == 0 and self.count(PASSED) > 0

    def write(self, path):
        whole = {**self.facts, "passed": self.passed, "checks": [outcome.as_json() for outcome in self.outcomes]}
        with open(path, "w") as out:
            json.dump(whole, out, indent=1)
            out.write("\n")
        print(
            f"gpu_check: {'PASSED' if self.passed else 'FAILED'}: {self.count(PASSED)} passed, "
            f"{self.count(FAILED)} failed, {self.count(NOT_MEASURABLE)} not measurable; report in {path}"
        )
