"""1: the programs start, find what they need, and mean the GPU that CUDA means."""

import json
import re

from checks import check
from report import NotMeasurable

CUDA_LIBRARY = re.compile(r"lib(torch_cuda|c10_cuda|cu(da|dart|dnn|blas|fft|file|pti|rand|solver|sparse)|nccl|nv)")


@check(1, "nvidia-smi", "it lists the GPUs that CUDA shows", needs="gpu")
def nvidia_smi(machine, outcome):
    try:
        listed = machine.run(["nvidia-smi", "--query-gpu=name,uuid,driver_version", "--format=csv,noheader"], gpus=99)
    except FileNotFoundError:
        raise NotMeasurable("there is no nvidia-smi")
    outcome.expect("exit status", listed.status, 0)
    outcome.note(" | ".join(listed.output.splitlines()))
    for gpu in machine.gpus:
        if gpu["uuid"] not in listed.output and "MIG" not in gpu["name"]:
            outcome.fail(f"it does not list {gpu['uuid']}")


@check(1, "info", "it ends with status 0 and names MPI and, on a GPU machine, CUDA's and NCCL's versions")
def info(machine, outcome):
    told = machine.run([machine.program(), "info"], gpus=99)
    outcome.expect("exit status", told.status, 0)
    for text in ["MPI: "] + ([] if machine.rehearse else ["CUDA: ", "NCCL: "]):
        if text not in told.output:
            outcome.fail(f"it does not say {text!r}: {told.tail()}")


@check(1, "plan", "it gives one rank a device, without errors")
def plan(machine, outcome):
    made = read_plan(machine)
    outcome.expect("errors", made["errors"], [])
    outcome.expect("world_size", made["world_size"], 1)
    outcome.expect("device", made["ranks"][0]["device"], machine.size("cuda:0", "cpu"))


@check(1, "the plan's GPU", "its UUID is the one that cudaGetDeviceProperties tells", needs="gpu")
def uuid(machine, outcome):
    found = read_plan(machine)["ranks"][0]["uuid"] or "none"
    outcome.expect("UUID", found.removeprefix("MIG-").removeprefix("GPU-"), machine.gpus[0]["uuid"].removeprefix("GPU-"))


def read_plan(machine):
    accelerator = machine.size("gpu", "cpu")
    told = machine.run([machine.program(), "plan", "--accelerator", accelerator, "--devices", "1", "--json"])
    return json.loads(next(line for line in told.output.splitlines() if line.startswith("{")))


@check(1, "ldd", "program and plugins name no library of CUDA beyond libtorch_cpu's own, and lack none")
def ldd(machine, outcome):
    of_torch, torch_path = set(), None
    for path in [machine.program()] + plugins(machine):
        listed = machine.run(["ldd", path]).output
        if torch_path is None:
            torch_path = next((line.split()[2] for line in listed.splitlines() if "libtorch_cpu.so =>" in line), None)
            if torch_path is None or torch_path == "not":
                outcome.fail(f"{path} does not find libtorch_cpu.so")
                return
            of_torch = names(machine.run(["ldd", torch_path]).output)
        for line in listed.splitlines():
            if "not found" in line:
                outcome.fail(f"{path}: {line.strip()}")
        for name in sorted(names(listed) - of_torch):
            if CUDA_LIBRARY.match(name):
                outcome.fail(f"{path} is linked to {name}")


def names(listed):
    return {line.split()[0] for line in listed.splitlines() if line.strip()}


def plugins(machine):
    return sorted(str(path) for path in (machine.root / "lib" / "cxtrain").glob("*.so"))


@check(1, "env -i", "the program starts, and trains, in an empty environment")
def empty_environment(machine, outcome):
    starter = [machine.options.starter] if machine.options.starter else []
    bare = ["env", "-i", "PATH=/usr/bin:/bin"]
    if starter:  # the bundle's, which has to be told of LibTorch
        bare.append(f"CXTRAIN_LIBTORCH={machine.options.libtorch}")
    done = machine.run(bare + starter + machine.fit("--model", "digits", "--max_steps", 3))
    outcome.expect("exit status", done.status, 0)
    if outcome.problems:
        outcome.fail(done.tail())
