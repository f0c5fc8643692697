#!/usr/bin/env python3
"""Plants causes of bad scaling, and compares what `cxtrain_mpi scaling` finds with them: the cause that a study names first, and the step that
the study promises without the cause, with the step of a study without the cause.

    tests/reliability/planted_causes.py [--build build/release] [--repeats 3] [--seed 1] [--only TEXT]

Most studies sleep in place of computing, on 1 and 2 ranks. Causes between nodes need emulated nodes (root and iproute2, tests/support/nodes.sh). Clean
studies have no cause, and must name none. Ends with 1 where a study names another cause first, a clean study names one, or a promise errs by more
than 3 % of the step.
"""

import argparse
import contextlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from ranks import emulated_nodes, environment, set_rate, study_on_nodes

BLOCKS, ROUNDS = 4, 3
LARGEST_ERROR = 0.03  # of a promised step


class Case:
    """A cause by its name in scaling.json, and the options of a training with the cause and without it. `ranks`: of the largest size, and without the
    cause. `on_nodes`: a rank on each of so many emulated nodes, with links of this rate; `slow_node`: the rate of node 2. `step`: the one that the
    cause makes longer."""

    def __init__(self, name, cause, planted, cured, mode="weak", ranks=(2, 2), on_nodes=None, slow_node=None, step="step_seconds"):
        self.name, self.cause, self.planted, self.cured = name, cause, planted, cured
        self.mode, self.ranks, self.on_nodes, self.slow_node, self.step = mode, ranks, on_nodes, slow_node, step

    def step_of(self, size):
        step = size[self.step]
        return step["value"] if isinstance(step, dict) else step


def sleeper(step, blocks=BLOCKS, steps=30):
    """The options of a training whose ranks sleep so many ms in a step."""
    return ["--model", "sleeper", "--model.blocks", blocks, "--model.ms", step / (3 * blocks), "--max_steps", steps]


def cases(draw):
    step = draw.uniform(60, 120)  # ms that a rank sleeps in a step
    ddp = ["--strategy", "ddp"]  # also on one rank
    short, long = sleeper(step), sleeper(step, steps=150)
    late = draw.uniform(0.1, 0.4) * step
    jitter = draw.uniform(0.12, 0.3)
    bytes_ = draw.uniform(0.15, 0.4) * step * 12_500  # of a link of 100 Mbit/s in this part of a step
    heavy = [*short, *ddp, "--model.numbers", int(bytes_ / BLOCKS)]  # more than backward hides
    # On three nodes, a fifth of the step on links of 1 Gbit/s, which backward hides.
    thin = [*short, *ddp, "--model.numbers", int(0.15 * step * 125_000 / 4 / BLOCKS)]
    # In several buckets, of which backward hides all but the last.
    cut = [*sleeper(step, blocks=12), *ddp, "--model.numbers", int(10 * bytes_ / 48)]
    many = [*sleeper(step, blocks=300), *ddp, "--model.busy", "true", "--strategy.overlap", "false"]
    small = ["--strategy.bucket_bytes", 1, "--strategy.first_bucket_bytes", 1]
    busy = [*short, *ddp, "--model.busy", "true"]
    saves = [*short, "--model.numbers", 4_000_000, "--checkpoint.every_n_train_steps", 1]
    adam = [*short, *ddp, "--model.numbers", draw.randint(3_000_000, 5_000_000), "--model.samples", 8, "--data.batch_size", 8, "--optimizer", "adam"]
    shared_batch = ["--data.batch_size", 8]
    return [
        Case("clean", None, short, short),
        Case("slow loader", "loader", [*short, "--model.data_ms", late], short),
        Case("slow rank", "slow_rank", [*short, "--model.slow_rank", 1, "--model.slow_ms", late], short),
        Case("noise", "noise", [*long, "--model.jitter", jitter], short),
        Case("slow network", "communication", heavy, short, on_nodes=(2, "100mbit")),
        Case("one slow link", "slow_link", thin, thin, on_nodes=(3, "1gbit"), slow_node="200mbit"),
        Case("no overlap", "no_overlap", [*cut, "--strategy.overlap", "false"], cut, on_nodes=(2, "1gbit")),
        Case("small buckets", "small_messages", [*many, *small], many, on_nodes=(2, "1gbit")),
        Case("few cores", "cores", busy, busy, ranks=(4, 2)),
        Case("wrong core", "binding", [*busy, "--model.core", 0], busy),
        Case("checkpoints", "checkpoints", [*saves, "--enable_checkpointing", "true"], saves, step="mean_step_seconds"),
        # A rank of 2 sleeps as long as the only rank, or in proportion to its part of the batch.
        Case("fixed work", "fixed_work", [*short, *shared_batch], [*short, *shared_batch, "--model.samples", 8], mode="strong"),
        Case("whole optimizer", "optimizer", [*adam, "--strategy.shard_optimizer", "false"], adam, mode="strong"),
    ]


def largest_size(build, case, planted, folder):
    """What a study with the cause, or without it, has found for its largest size."""
    options, ranks = (case.planted, case.ranks[0]) if planted else (case.cured, case.ranks[1])
    program = pathlib.Path(build).resolve() / "bin" / "cxtrain_mpi"
    options = ["--plugin", program.parent.parent / "tests" / "plugins" / "sleeper.so", *options]
    if case.on_nodes is not None:
        nodes = case.on_nodes[0]
        if case.slow_node is not None:
            set_rate(2, case.slow_node if planted else case.on_nodes[1])
        return study_on_nodes(program, folder, [1, nodes], ROUNDS, [*options, "--enable_checkpointing", "false"])["sizes"][-1]
    command = [program, "scaling", "--ranks", f"1,{ranks}", "--repeats", ROUNDS, "--mode", case.mode, "--out", folder, "--accelerator", "cpu", *options]
    study = subprocess.run([str(word) for word in command], env=environment(), capture_output=True, text=True)
    if study.returncode != 0:
        sys.exit(f"{case.name}: status {study.returncode}\n{study.stdout}{study.stderr}")
    return json.loads((folder / "scaling.json").read_text())["sizes"][-1]


def try_case(build, case, root):
    """Whether a study finds the cause, and promises what comes true."""
    size = largest_size(build, case, True, root / "planted")
    step, found = case.step_of(size), size["causes"]
    row = {"case": case.name, "step_ms": 1e3 * step, "found": {each["cause"]: round(each["share"], 3) for each in found}}
    good = [each["cause"] for each in found[:1]] == ([case.cause] if case.cause else [])
    if good and case.cause:
        promised, truth = step - found[0]["seconds"], case.step_of(largest_size(build, case, False, root / "cured"))
        row |= {"promised_ms": 1e3 * promised, "truth_ms": 1e3 * truth, "error": (promised - truth) / step}
        good = abs(row["error"]) <= LARGEST_ERROR
    print(json.dumps({**row, "good": good}), flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose names contain this text")
    options = parser.parse_args()
    tried = good = 0
    for repeat in range(options.repeats):
        for case in cases(random.Random(options.seed + repeat)):
            if options.only not in case.name:
                continue
            nodes = emulated_nodes(*case.on_nodes) if case.on_nodes is not None else contextlib.nullcontext()
            with nodes, tempfile.TemporaryDirectory(prefix="cxtrain_planted_") as root:
                good += try_case(options.build, case, pathlib.Path(root))
            tried += 1
    if not tried:
        parser.error(f"no case has '{options.only}' in its name")
    print(f"{good} of {tried} studies")
    sys.exit(0 if good == tried else 1)


if __name__ == "__main__":
    main()
