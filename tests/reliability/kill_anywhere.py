#!/usr/bin/env python3
"""Kills trainings at random instants, again and again, and has each go on by `--ckpt_path auto`: every one has to end with
the parameters and the rows of metrics of a training that nobody disturbed.

    tests/reliability/kill_anywhere.py [--build build/release] [--kills 300] [--seed 1]

The kills (SIGKILL, to a rank or to mpirun) are divided among the cases: single, dp with two replicas, ddp, zero and pipeline.
A checkpoint is written every seven steps, so that a good part of them falls into saves. Ends with 1 where a training differs.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from ranks import environment, launcher, newest_run, processes

TEXT = pathlib.Path(__file__).resolve().parents[2] / "README.md"
# A small chain of blocks.
GPT = ["--model", "gpt", "--model.width", "32", "--model.layers", "2", "--model.heads", "2", "--model.context", "16"]
GPT += ["--data.path", str(TEXT), "--limit_train_batches", "60", "--limit_val_batches", "2", "--accumulate_grad_batches", "2"]
PIPELINE = [*GPT, "--strategy", "pipeline"]
CASES = {
    "single": (1, []),
    "dp, 2 replicas": (1, ["--strategy", "dp", "--devices", "2"]),
    "ddp, 2 ranks": (2, []),
    "ddp, 4 ranks": (4, []),
    "zero, stage 1, 2 ranks": (2, ["--strategy", "zero", "--strategy.stage", "1"]),
    "zero, stage 2, 3 ranks": (3, ["--strategy", "zero", "--strategy.stage", "2"]),
    "zero, stage 3, 2 ranks": (2, ["--strategy", "zero"]),
    "zero, stage 3, 4 ranks": (4, ["--strategy", "zero"]),
    "zero, gathered, 3 ranks": (3, [*GPT, "--strategy", "zero", "--strategy.parameters", "all"]),
    "pipeline 1f1b, 2 ranks": (2, PIPELINE),
    "pipeline zb1p, 3 ranks": (3, [*PIPELINE, "--strategy.schedule", "zb1p"]),
    "pipeline, 2 stages, 4 ranks": (4, [*PIPELINE, "--strategy.stages", "2", "--strategy.shard_optimizer", "true"]),
}
DEADLINE = 120  # seconds that one attempt may take


class Training:
    def __init__(self, options, case):
        self.program = pathlib.Path(options.build).resolve() / "bin" / "cxtrain_mpi"
        self.ranks, self.options = CASES[case]

    def start(self, root, log):
        command = [self.program, "fit", "--accelerator", "cpu", "--enable_progress_bar", "false", "--max_epochs", "3"]
        command += ["--data.batch_size", str(16 // self.ranks), "--log_every_n_steps", "5", "--seed", "3"]
        command += ["--checkpoint.every_n_train_steps", "7", "--ckpt_path", "auto", "--default_root_dir", root]
        words = launcher(self.ranks) + command + self.options
        return subprocess.Popen(words, env=environment(), stdout=log, stderr=log)

    def end_of(self, root):
        run = newest_run(root)
        summary = json.loads((run / "run.json").read_text())
        return summary["status"], summary["parameters_sha256"], (run / "metrics.csv").read_text()

    def processes(self, root):
        return processes(self.program, root)


def kill_somebody(training, process, root):
    victim = random.choice(training.processes(root) + [process.pid])
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        pass
    try:
        process.wait(DEADLINE)
    except subprocess.TimeoutExpired:
        # The mpirun of Open MPI 4 may hang after its ranks have ended (launchers/child_process.h).
        if training.processes(root):
            sys.exit(f"{root}: ranks outlive a rank that was killed")
        print(f"{root}: mpirun hangs", file=sys.stderr, flush=True)
        process.kill()
        process.wait()
    # A killed mpirun leaves its ranks behind, which notice it.
    end = time.monotonic() + DEADLINE
    while training.processes(root):
        if time.monotonic() > end:
            sys.exit(f"{root}: ranks outlive their mpirun")
        time.sleep(0.01)


def attempt(training, root, lifetime):
    """Whether the training came to its end before it was killed."""
    with open(root.parent / "output", "w") as log:
        process = training.start(root, log)
        try:
            process.wait(DEADLINE if lifetime is None else lifetime)
        except subprocess.TimeoutExpired:
            kill_somebody(training, process, root)
            if lifetime is None:
                sys.exit(f"{root}: not ended after {DEADLINE} s")
            return False
    if process.returncode != 0:
        sys.exit(f"{root}: status {process.returncode}\n" + (root.parent / "output").read_text())
    return True


def disturb(training, case, kills, folder):
    began = time.monotonic()
    attempt(training, folder / "undisturbed", None)
    whole = time.monotonic() - began
    expected = training.end_of(folder / "undisturbed")
    done = wrong = trainings = 0
    while done < kills:
        root = folder / f"disturbed_{trainings}"
        trainings += 1
        while not attempt(training, root, random.uniform(0, whole) if done < kills else None):
            done += 1
        if training.end_of(root) != expected:
            wrong += 1
            print(f"{case}: training {trainings} has ended otherwise", file=sys.stderr)
    print(
        f"{case}: {done} kills, {trainings} trainings, {wrong} with another end; {whole:.1f} s undisturbed, "
        f"{time.monotonic() - began:.0f} s in all",
        flush=True,
    )
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="cases whose names contain this text, of: " + "; ".join(CASES))
    options = parser.parse_args()
    random.seed(options.seed)
    cases = [case for case in CASES if (options.only or "") in case]
    if not cases:
        parser.error(f"no case has '{options.only}' in its name")
    wrong = 0
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="cxtrain_kill_") as folder:
            wrong += disturb(Training(options, case), case, -(-options.kills // len(cases)), pathlib.Path(folder))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
