#!/usr/bin/env python3
"""How long a job takes to its first step, by its number of ranks: seconds from mpirun to the end of the first step (rank 0's
`first_step_seconds` and what mpirun takes before it), and the most memory that rank 0 has held. Medians of interleaved runs.

    benchmarks/startup.py [--build build/release] [--ranks 2,4,8,16,32] [--runs 5] [--messages] [--files]

More ranks than cores share these, so the times beyond them are those of a crowded machine. With `--messages` another run of each
number has Open MPI count (its component `monitoring`) what a rank sends by MPI, collectives taken apart: rank 0, and the most
of any rank. The model's parameters, which go from rank 0 to all, are among the bytes (77 KB). With `--files` strace(1) counts what
rank 1 of two asks file systems (/proc, /sys and /dev apart): of an installed program, as the one in the build folder looks into more
places.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time


def start(program, ranks, folder, of_mpirun=()):
    command = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", *of_mpirun, program, "fit",
               "--accelerator", "cpu", "--max_steps", "1", "--limit_val_batches", "0", "--enable_checkpointing", "false",
               "--data.batch_size", "8", "--enable_progress_bar", "false", "--default_root_dir", folder]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    began = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    run = json.loads((pathlib.Path(folder) / "cxtrain_logs/version_0/run.json").read_text())
    return seconds, run["first_step_seconds"], run["peak_memory_bytes"]


def sent(profile):
    """Messages and bytes that a rank has sent to all others."""
    rows = [line.split("\t") for line in profile.read_text().splitlines() if line.startswith(("E\t", "I\t"))]
    return sum(int(row[4].split()[0]) for row in rows), sum(int(row[3].split()[0]) for row in rows)


def count_messages(program, ranks):
    with tempfile.TemporaryDirectory(prefix="cxtrain_startup_") as folder:
        counting = ["pml_monitoring_enable", "2", "pml_monitoring_enable_output", "3", "pml_monitoring_filename",
                    f"{folder}/sent"]
        start(program, ranks, folder, [word for i in range(0, 6, 2) for word in ("--mca", *counting[i:i + 2])])
        of_ranks = [sent(pathlib.Path(f"{folder}/sent.{rank}.prof")) for rank in range(ranks)]
        return of_ranks[0], (max(messages for messages, _ in of_ranks), max(size for _, size in of_ranks))


def count_questions(program):
    """How many files a rank opens, how many it looks for where there is none, and how many it asks the state of."""
    with tempfile.TemporaryDirectory(prefix="cxtrain_startup_") as folder:
        traced = pathlib.Path(folder) / "traced"
        traced.write_text(f"#!/bin/sh\nexec strace -f -e trace=open,openat,newfstatat,stat,access,readlink "
                          f"-o {folder}/calls.$OMPI_COMM_WORLD_RANK {program} \"$@\"\n")
        traced.chmod(0o755)
        start(traced, 2, folder)
        opened = missing = states = 0
        for line in pathlib.Path(f"{folder}/calls.1").read_text(errors="replace").splitlines():
            call = re.search(r'(\w+)\((?:AT_FDCWD, |\d+, )?"([^"]*)".* = (-?\d+)', line)
            if call is None or re.match(r"/(proc|sys|dev)(/|$)", call[2]):
                continue
            if not call[1].startswith("open"):
                states += 1
            elif call[3] == "-1":
                missing += 1
            else:
                opened += 1
        return opened, missing, states


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--ranks", default="2,4,8,16,32")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--messages", action="store_true")
    parser.add_argument("--files", action="store_true")
    options = parser.parse_args()
    program = pathlib.Path(options.build).resolve() / "bin" / "cxtrain_mpi"
    measured = {int(ranks): [] for ranks in options.ranks.split(",")}
    for _ in range(options.runs):
        for ranks, runs in measured.items():
            with tempfile.TemporaryDirectory(prefix="cxtrain_startup_") as folder:
                runs.append(start(program, ranks, folder))
    print("ranks  job s  first step s  MB")
    for ranks, runs in measured.items():
        job, first, memory = (statistics.median(column) for column in zip(*runs))
        print(f"{ranks:5d}  {job:5.2f}  {first:12.2f}  {memory / 1e6:.0f}")
    if options.messages:
        print("ranks  rank 0 sends: messages, KB  any rank at most: messages, KB")
        for ranks in measured:
            root, most = count_messages(program, ranks)
            print(f"{ranks:5d}  {root[0]:22d}  {root[1] / 1e3:.0f}  {most[0]:26d}  {most[1] / 1e3:.0f}")
    if options.files:
        print("a rank opens {} files, looks for {} more in vain, and asks the state of {}".format(*count_questions(program)))


if __name__ == "__main__":
    main()
