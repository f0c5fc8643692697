#!/usr/bin/env python3
"""Trains a tiny model for many steps with a checkpoint every so often, and looks at each rank's memory, open files and
threads meanwhile: all three have to stay as they are.

    tests/reliability/soak.py [--build build/release] [--ranks 1] [--steps 100000] [--every 1000] [--strategy NAME]

Memory is what a line through all samples after the first fifth says it grows by (resident, from /proc); it may be 2 MiB in
all. Of open files and threads the median must not rise, and no sample may be far above it. Ends with 1 where one does.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from ranks import environment, launcher, processes

PAUSE = 0.05  # seconds between two samples
WARM_UP = 0.2  # of the samples are left out: caches fill
MOST_GROWTH = 2048  # KiB, of all samples that count
MOST_ABOVE = 12  # files or threads above the median, while a checkpoint is written


class Rank:
    """What /proc says of a process, again and again."""

    def __init__(self, process):
        self.folder = pathlib.Path("/proc") / str(process)
        self.samples = []  # (seconds, KiB, files, threads)

    def look(self, now):
        try:
            fields = dict(line.split(":", 1) for line in (self.folder / "status").read_text().splitlines())
            files = len(os.listdir(self.folder / "fd"))
            self.samples.append((now, int(fields["VmRSS"].split()[0]), files, int(fields["Threads"])))
        except (OSError, KeyError):
            pass  # it has ended

    def counted(self):
        return self.samples[int(len(self.samples) * WARM_UP) :]


def growth(points):
    """Of a straight line through them, from the first to the last."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    mean_x, mean_y = statistics.fmean(xs), statistics.fmean(ys)
    square = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / square if square else 0.0
    return slope * (xs[-1] - xs[0])


def is_flat(name, values):
    third = len(values) // 3
    first, last = statistics.median(values[:third]), statistics.median(values[-third:])
    flat = last <= first and max(values) <= last + MOST_ABOVE
    print(f"  {name}: {first:g} at first, {last:g} at last, {max(values)} at most{'' if flat else '  <- grows'}")
    return flat


def is_steady(rank, number):
    samples = rank.counted()
    if len(samples) < 30:
        sys.exit(f"rank {number}: only {len(samples)} samples; ask for more steps")
    grown = growth([(now, kib) for now, kib, _, _ in samples])
    print(f"rank {number}, {len(samples)} samples:")
    print(
        f"  memory: {samples[0][1]} KiB at first, {samples[-1][1]} KiB at last, {grown:+.0f} KiB by the line"
        f"{'' if grown <= MOST_GROWTH else '  <- grows'}"
    )
    files = is_flat("open files", [files for _, _, files, _ in samples])
    threads = is_flat("threads", [threads for _, _, _, threads in samples])
    return grown <= MOST_GROWTH and files and threads


def command(options, root):
    program = pathlib.Path(options.build).resolve() / "bin" / "cxtrain_mpi"
    words = [program, "fit", "--accelerator", "cpu", "--enable_progress_bar", "false", "--model.hidden", "8"]
    words += ["--data.batch_size", "8", "--max_epochs", "-1", "--max_steps", str(options.steps)]
    words += ["--checkpoint.every_n_train_steps", str(options.every), "--default_root_dir", root]
    if options.strategy:
        words += ["--strategy", options.strategy] + (["--devices", "2"] if options.strategy == "dp" else [])
    return launcher(options.ranks) + words, program


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100000)
    parser.add_argument("--every", type=int, default=1000, help="steps between two checkpoints")
    parser.add_argument("--strategy", help="default: the program's choice")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cxtrain_soak_") as folder:
        root = pathlib.Path(folder)
        words, program = command(options, root)
        began = time.monotonic()
        with open(root / "output", "w") as log:
            process = subprocess.Popen(words, env=environment(), stdout=log, stderr=log)
        ranks = {}
        while process.poll() is None:
            if len(ranks) < options.ranks:
                for found in processes(program, root):
                    ranks.setdefault(found, Rank(found))
            for rank in ranks.values():
                rank.look(time.monotonic() - began)
            time.sleep(PAUSE)
        if process.returncode != 0:
            sys.exit(f"status {process.returncode}\n" + (root / "output").read_text()[-4000:])
        run = root / "cxtrain_logs" / "version_0"
        summary = json.loads((run / "run.json").read_text())
        print(
            f"{options.ranks} rank(s), {summary['global_step']} steps, a checkpoint every {options.every}: "
            f"{time.monotonic() - began:.1f} s"
        )
        left = sorted(path.name for path in (run / "checkpoints").iterdir())
        steady = [is_steady(rank, number) for number, (_, rank) in enumerate(sorted(ranks.items()))]
        if len(left) != 1:
            print(f"  checkpoints left: {left}")
        sys.exit(0 if all(steady) and len(steady) == options.ranks and len(left) == 1 else 1)


if __name__ == "__main__":
    main()
