#!/usr/bin/env python3
"""Kills a scaling study at random instants, again and again: the same command has to continue the study, measure nothing twice, and end
with the report that follows from the measurements.

    tests/reliability/kill_study.py [--build build/release] [--kills 100] [--seed 1]

A kill (SIGKILL) hits the runner of the study, the mpirun of a training, or a rank. Ends with 1 at the first fault.
"""

import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ranks import environment, processes

DEADLINE = 300  # seconds that one attempt may take
ENDS = 30  # seconds in which all processes of a killed study end
FILES = ["scaling.json", "scaling.csv", "report.md", "report.html"]


def measured(folder):
    """The measurements that are there, by their paths."""
    points = {path: path.read_text() for path in folder.glob("points/*/point.json")}
    return {path: text for path, text in points.items() if '"failure": ""' in text or '"failure"' not in text}


def wait_for_end(folder):
    end = time.monotonic() + ENDS
    while processes(b"", folder):
        if time.monotonic() > end:
            sys.exit(f"{folder}: processes outlive the study that was killed")
        time.sleep(0.01)


def attempt(program, folder, lifetime):
    """Runs the study, and kills one of its processes after the lifetime. Returns whether it has killed, and whether the study is complete."""
    command = [program, "scaling", "--ranks", "1,2", "--repeats", "3", "--out", folder, "--accelerator", "cpu", "--max_steps", "200"]
    before = measured(folder)
    with open(folder.parent / "output", "a") as log:
        study = subprocess.Popen(command, env=environment(), stdout=log, stderr=log)
        try:
            study.wait(DEADLINE if lifetime is None else lifetime)
            killed = False
        except subprocess.TimeoutExpired:
            if lifetime is None:
                sys.exit(f"{folder}: not ended after {DEADLINE} s")
            killed = True
            try:
                os.kill(random.choice(processes(b"", folder) or [study.pid]), signal.SIGKILL)
            except ProcessLookupError:
                pass
            study.wait(DEADLINE)
            wait_for_end(folder)
    for path, text in before.items():
        if path.read_text() != text:
            sys.exit(f"{path}: measured a second time")
    return killed, study.returncode == 0


def check_report(program, folder):
    """The files are those that `scaling collect` makes of the points."""
    copy = folder.parent / "collected"
    shutil.copytree(folder, copy)
    for name in FILES:
        (copy / name).unlink()
    subprocess.run([program, "scaling", "collect", "--from", copy], env=environment(), check=True, stdout=subprocess.DEVNULL)
    for name in FILES:
        if (copy / name).read_text() != (folder / name).read_text():
            sys.exit(f"{folder}: {name} differs from what its points give")
    shutil.rmtree(copy)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    program = pathlib.Path(options.build).resolve() / "bin" / "cxtrain_mpi"
    kills = studies = 0
    while kills < options.kills:
        with tempfile.TemporaryDirectory(prefix="cxtrain_study_") as root:
            folder = pathlib.Path(root) / "study"
            complete = False
            while not complete:
                killed, complete = attempt(program, folder, random.uniform(0, 3) if kills < options.kills else None)
                kills += killed
            check_report(program, folder)
        studies += 1
        print(f"{kills} kills, {studies} studies", flush=True)


if __name__ == "__main__":
    main()
