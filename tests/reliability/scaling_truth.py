#!/usr/bin/env python3
"""Compares predictions of `scaling predict` with the truth: trainings whose ranks sleep in place of computing, on up to 16 emulated nodes
with real connections of a limited rate.

    tests/reliability/scaling_truth.py [--build build/release] [--studies 8] [--seed 1] [--folder FOLDER]

A study draws how long a step computes, how much the ranks differ from step to step, the size of the gradients and the rate of the links.
It measures 1, 2 and 4 nodes, and predicts 8 and 16, which are then measured, too. Steps are long and links are slow, since 16 nodes share
the cores of this machine: a rank takes 5 ms of a core for a step, and 1 ns for a byte. Studies stay in FOLDER. A study that is there already, by its seed, is only predicted.
Needs root and iproute2 (tests/support/nodes.sh). Ends with 1 if the median error is above 3 %, or an error above 8 %.
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from ranks import emulated_nodes, hosts_of, study_on_nodes, train_on_nodes

MEASURED, PREDICTED = [1, 2, 4], [8, 16]
BLOCKS = 6


class Study:
    def __init__(self, build, seed, rounds, steps, strategy):
        draw = random.Random(seed)
        self.bin = pathlib.Path(build).resolve() / "bin" / "cxtrain_mpi"
        self.plugin = self.bin.parent.parent / "tests" / "plugins" / "sleeper.so"
        self.rounds, self.steps, self.strategy = rounds, steps, strategy
        self.rate = draw.choice([10, 20, 50])  # Mbit/s
        self.compute = draw.uniform(0.8, 1.6)  # seconds
        # 15/8 of the gradients cross a link of 16 nodes: at most as long as two steps compute. More bytes would take the cores' time.
        self.bytes = int(draw.uniform(0.1, 1) * min(1.5e6, self.compute * self.rate * 1e6 / 8))
        self.jitter = draw.choice([0, 0.01, 0.03])

    def __str__(self):
        return f"{1e3 * self.compute:.0f} ms, jitter {self.jitter}, {self.bytes / 1e6:.2f} MB at {self.rate} Mbit/s"

    def options(self):
        options = ["--plugin", self.plugin, "--model", "sleeper", "--model.blocks", str(BLOCKS)]
        options += ["--model.ms", str(1e3 * self.compute / (3 * BLOCKS)), "--model.jitter", str(self.jitter)]
        options += ["--model.numbers", str(self.bytes // 4 // BLOCKS), "--max_steps", str(self.steps)]
        return [*options, "--strategy", self.strategy, "--enable_checkpointing", "false"]

    def step_on(self, nodes, folder):
        """The median step of a training."""
        run = train_on_nodes(self.bin, hosts_of(nodes), [*self.options(), "--profiler", "simple"], folder)
        return json.loads((run / "profile.json").read_text())["median"]

    def predictions(self, folder):
        command = [self.bin, "scaling", "predict", "--from", folder, "--to", ",".join(map(str, PREDICTED)), "--json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True).stdout)


def measure(study, folder):
    """Measures the study's sizes, then the sizes to be predicted. The file truth.json, with their steps, comes last."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with emulated_nodes(max(PREDICTED), f"{study.rate}mbit"):
        study_on_nodes(study.bin, folder / "study", MEASURED, study.rounds, study.options())
        truth = {nodes: study.step_on(nodes, folder / f"truth_{nodes}") for nodes in PREDICTED}
    (folder / "truth.json").write_text(json.dumps(truth))


def compare(study, number, folder):
    """For each size that was not measured: the error, whether the truth lies in the interval, and the error of perfect scaling."""
    if not (folder / "truth.json").exists():
        measure(study, folder)
    truths = json.loads((folder / "truth.json").read_text())
    sizes = json.loads((folder / "study" / "scaling.json").read_text())["sizes"]
    steps = {size["ranks"]: size["step_seconds"]["value"] for size in sizes}
    found = []
    for size in study.predictions(folder / "study")["sizes"]:
        nodes = size["ranks"]
        truth = truths[str(nodes)]
        row = {"study": number, "of": str(study), "measured": steps, "nodes": nodes, "truth": truth, "refusal": size["refusal"]}
        if not size["refusal"]:
            step = size["step_seconds"]
            row |= {"predicted": step, "error": step["value"] / truth - 1, "perfect": steps[1] / truth - 1}
            row["covered"] = step["low"] <= truth <= step["high"]
        found.append(row)
        print(json.dumps(row), flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--studies", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strategy", default="ddp")
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="cxtrain_truth_") as temporary:
        for seed in range(options.seed, options.seed + options.studies):
            study = Study(options.build, seed, options.rounds, options.steps, options.strategy)
            rows += compare(study, seed, (options.folder or pathlib.Path(temporary)) / f"study_{seed}")
    known = [row for row in rows if not row["refusal"]]
    if not known:
        sys.exit("every prediction was refused")
    errors = [abs(row["error"]) for row in known]
    print(
        f"{len(known)} predictions, {len(rows) - len(known)} refused; error: median {statistics.median(errors):.1%}, largest {max(errors):.1%}; "
        f"of perfect scaling: median {statistics.median(abs(row['perfect']) for row in known):.1%}; "
        f"in the interval: {sum(row['covered'] for row in known)}"
    )
    sys.exit(1 if statistics.median(errors) > 0.03 or max(errors) > 0.08 else 0)


if __name__ == "__main__":
    main()
