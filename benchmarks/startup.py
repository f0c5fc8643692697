#!/usr/bin/env python3
"""How long a job takes to its first step, by its number of ranks: seconds from mpirun to the end of the first step (rank 0's
`first_step_seconds` and what mpirun takes before it), and the most memory that rank 0 has held. Medians of interleaved runs.

    benchmarks/startup.py [--build build/release] [--ranks 2,4,8,16,32] [--runs 5]

More ranks than cores share these, so the times beyond them are those of a crowded machine.
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


def start(program, ranks, folder):
    command = ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none", program, "fit", "--accelerator", "cpu",
               "--max_steps", "1", "--limit_val_batches", "0", "--enable_checkpointing", "false", "--data.batch_size", "8",
               "--enable_progress_bar", "false", "--default_root_dir", folder]
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    began = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    run = json.loads((pathlib.Path(folder) / "cxtrain_logs/version_0/run.json").read_text())
    return seconds, run["first_step_seconds"], run["peak_memory_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--ranks", default="2,4,8,16,32")
    parser.add_argument("--runs", type=int, default=5)
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


if __name__ == "__main__":
    main()
