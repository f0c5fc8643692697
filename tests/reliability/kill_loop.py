#!/usr/bin/env python3
"""Kills a training that starts itself again (`--max_restarts`) every few seconds: it has to end with the parameters and the rows
of metrics of one that nobody disturbed. Prints how much of the time has trained what is kept.

    tests/reliability/kill_loop.py [--build build/release] [--every 15] [--seconds 600] [--ranks 2] [--strategy ddp] [--seed 1]

The kills (SIGKILL, to a rank or to mpirun) go on for `--seconds`; the training is as long as those, by a measured step. Ends with
1 where the training differs.
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

from kill_anywhere import GPT
from ranks import newest_run

SIMPLE = ["--model", "simple", "--model.in", "256", "--model.out", "64", "--model.samples", "4096", "--data.batch_size", "32"]


def children_of(process):
    """All processes below this one."""
    found = []
    for task in pathlib.Path(f"/proc/{process}/task").glob("*"):
        try:
            for child in (task / "children").read_text().split():
                found += [int(child), *children_of(int(child))]
        except OSError:
            pass
    return found


class Training:
    def __init__(self, options):
        self.program = pathlib.Path(options.build).resolve() / "bin" / "cxtrain_mpi"
        self.options = ["--devices", str(options.ranks), "--strategy", options.strategy]
        self.options += [*GPT, "--data.batch_size", "4"] if options.strategy == "pipeline" else SIMPLE
        self.env = dict(os.environ, OMP_NUM_THREADS="1")

    def start(self, root, steps, *options):
        command = [self.program, "fit", "--accelerator", "cpu", *self.options]
        command += ["--enable_progress_bar", "false", "--log_every_n_steps", "1000", "--seed", "3"]
        command += ["--max_steps", str(steps), "--checkpoint.train_time_interval", "00:00:00:02"]
        command += ["--default_root_dir", root, *options]
        return subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, root, steps):
        process = self.start(root, steps)
        output = process.communicate()[0]
        if process.returncode != 0:
            sys.exit(output)
        return self.end_of(root)

    def end_of(self, root):
        run = newest_run(root)
        summary = json.loads((run / "run.json").read_text())
        return summary, (run / "metrics.csv").read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--every", type=float, default=15)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--strategy", default="ddp")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    training = Training(options)
    with tempfile.TemporaryDirectory(prefix="cxtrain_kill_loop_") as name:
        folder = pathlib.Path(name)
        probed = 300 if options.strategy == "pipeline" else 5000  # steps
        probe, _ = training.run(folder / "probe", probed)
        # Part of the time is lost to starts and repeated steps; it must not end before the kills do.
        steps = int(probed / probe["seconds"] * options.seconds * 0.72)
        began = time.monotonic()
        process = training.start(folder / "disturbed", steps, "--max_restarts", "1000000")
        kills = 0
        while process.poll() is None:
            try:
                process.wait(options.every)
            except subprocess.TimeoutExpired:
                victims = children_of(process.pid)
                if victims and time.monotonic() - began < options.seconds:
                    os.kill(random.choice(victims), signal.SIGKILL)
                    kills += 1
        output = process.communicate()[0]
        seconds = time.monotonic() - began
        if process.returncode != 0:
            sys.exit(output)
        end, rows = training.end_of(folder / "disturbed")
        print(f"{kills} kills in {seconds:.0f} s, {steps} steps, {end['seconds']:.0f} s of training: useful "
              f"{100 * end['seconds'] / seconds:.0f} %")
        print(output.strip().splitlines()[-1])
        expected, expected_rows = training.run(folder / "undisturbed", steps)
        print(f"undisturbed: {expected['seconds']:.0f} s of training")
        same = end["parameters_sha256"] == expected["parameters_sha256"] and rows == expected_rows
        print("the same parameters and rows" if same else "ANOTHER END")
        sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
