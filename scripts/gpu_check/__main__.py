"""Checks cxtrain on a machine with a GPU; scripts/gpu_check.sh starts this, docs/gpu.md says what each check means."""

import argparse
import datetime
import os
import pathlib
import sys
import tempfile

import checks
import report
from machine import Machine

# Each puts its checks on the list, in the order in which they run.
import programs  # noqa: F401
import tests_and_trainings  # noqa: F401
import waiting  # noqa: F401
import step_times  # noqa: F401
import measurements  # noqa: F401
import two_ranks  # noqa: F401
import ways_out  # noqa: F401
import memory  # noqa: F401
import two_gpus  # noqa: F401


def mnist_folder(data):
    """Where below `data` MNIST's files are; None where they are not."""
    for folder in [pathlib.Path(data), pathlib.Path(data) / "mnist"] if data else []:
        if all(list(folder.glob(f"{kind}-images-idx3-ubyte*")) for kind in ("train", "t10k")):
            return folder
    return None


def read_options():
    parser = argparse.ArgumentParser(prog="gpu_check", allow_abbrev=False)
    parser.add_argument("--root", required=True, help="folder that has bin/ and lib/")
    parser.add_argument("--bin", help="folder of the programs, where it is another")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--starter", default="", help="what starts a program in an empty environment")
    parser.add_argument("--libtorch", default="")
    parser.add_argument("--data", default="", help="a folder that holds MNIST's files")
    parser.add_argument("--data-folders", default="", help="folders of the program's data, with colons")
    parser.add_argument("--report", default="gpu_check.json")
    parser.add_argument("--rehearse", action="store_true", help="the same on the CPU, with tiny sizes")
    parser.add_argument("--only", default="", help="numbers of the items to be checked, with commas")
    options = parser.parse_args()
    options.bin = options.bin or f"{options.root}/bin"
    options.mnist = mnist_folder(options.data)
    return options


def main():
    options = read_options()
    wanted = {int(item) for item in options.only.split(",") if item}
    if os.geteuid() == 0:
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    # Containers often forbid ranks to read each other's memory; Open MPI then reports errors instead of going without.
    os.environ["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none"
    os.environ["CXTRAIN_MPIRUN"] = options.mpirun
    with tempfile.TemporaryDirectory(prefix="gpu_check_") as work:
        machine = Machine(options, work)
        version = machine.run([machine.program(), "--version"]).output.strip()
        machine.find_gpus()
        found = report.Report(
            {
                "program": version,
                "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
                "host": os.uname().nodename,
                "rehearsal": options.rehearse,
                "gpus": machine.gpus,
            }
        )
        if options.rehearse:
            machine.gpus = []
        elif not machine.gpus:
            outcome = report.Outcome(0, "GPU present", "CUDA shows at least one")
            outcome.fail(machine.no_gpu or "no GPU is visible")
            found.add(outcome)
        for entry in checks.CHECKS if options.rehearse or machine.gpus else []:
            if wanted and entry.item not in wanted:
                continue
            outcome = checks.run(entry, machine)
            found.add(outcome)
            for part in outcome.parts:
                found.add(part)
        found.write(options.report)
    return 0 if found.passed else 1


if __name__ == "__main__":
    sys.exit(main())
