"""4: a step of the trainer against a step of the same model in a loop written by hand (benchmarks/)."""

import json
import os
import random
import statistics
import struct

from checks import check
from report import NotMeasurable
from trainings import read_run


def make_mnist(folder, count):
    """Random images in MNIST's files: for time, any will do."""
    generator = random.Random(1)
    for prefix, n in (("train", count), ("t10k", 256)):
        images, labels = generator.randbytes(n * 784), bytes(generator.randrange(10) for _ in range(n))
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, n, 28, 28) + images)
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, n) + labels)
    return folder


class Work:
    """The same model and data for both: options of the trainer, arguments of the loop."""

    def __init__(self, machine, trainer, floor, batch, steps, warmup):
        self.machine, self.batch, self.steps, self.warmup = machine, batch, steps, warmup
        self.trainer_options, self.floor_options = trainer, floor

    def trainer(self, *more, folder=None, before=(), gpus=1):
        lengths = ["--max_steps", self.steps, "--max_epochs", -1, "--limit_val_batches", 0]
        common = ["--strategy", "single", "--data.batch_size", self.batch, *lengths]
        fit = self.machine.fit(*common, *self.trainer_options, *more, folder=folder)
        command = [*before, self.machine.program("bench_trainer_loop"), *fit[1:]]
        return self.last_line(self.machine.run(command, gpus=gpus, BENCH_WARMUP=str(self.warmup)))

    def floor(self):
        device = self.machine.size("cuda:0", "cpu")
        lengths = ["--batch", self.batch, "--steps", self.steps, "--warmup", self.warmup]
        command = [self.machine.program("bench_floor_loop"), "--device", device, *lengths, *self.floor_options]
        return self.last_line(self.machine.run(command))

    @staticmethod
    def last_line(done):
        if done.status != 0:
            raise RuntimeError(f"exit status {done.status}: {done.tail()}")
        return json.loads(done.output.splitlines()[-1])


def gpt_work(machine, layers, heads, width, context, batch, steps, bf16=False):
    text = machine.data_file("bible-kjv.txt")
    trainer = ["--model", "gpt", "--model.sample_bytes", 0, "--lr_scheduler", "constant", "--data.path", text]
    floor = ["--model", "gpt", "--data", text]
    for name, value in (("layers", layers), ("heads", heads), ("width", width), ("context", context)):
        trainer += [f"--model.{name}", value]
        floor += [f"--{name}", value]
    if bf16:
        trainer, floor = trainer + ["--precision", "bf16-mixed"], floor + ["--bf16", 1]
    return Work(machine, trainer, floor, batch, steps, warmup=max(2, steps // 5))


def small_gpt(machine):
    if machine.rehearse:
        return gpt_work(machine, layers=1, heads=2, width=16, context=16, batch=2, steps=20)
    return gpt_work(machine, layers=4, heads=4, width=128, context=128, batch=16, steps=200)


def large_gpt(machine):
    if machine.rehearse:
        return gpt_work(machine, layers=1, heads=2, width=16, context=16, batch=2, steps=20, bf16=True)
    return gpt_work(machine, layers=12, heads=12, width=768, context=512, batch=16, steps=40, bf16=True)


def mnist_cnn(machine):
    folder = make_mnist(machine.folder(), machine.size(9984, 512))
    trainer = ["--model", "mnist", "--model.net", "cnn", "--data.path", folder]
    steps = machine.size(150, 4)
    return Work(machine, trainer, ["--model", "cnn", "--data", folder], machine.size(256, 16), steps, max(2, steps // 5))


def against_floor(name, make, limit):
    @check(4, f"step time: {name}", f"at most {limit} times the hand-written loop's")
    def measured(machine, outcome):
        work, ratios = make(machine), []
        for _ in range(machine.size(3, 1)):
            floor, trainer = work.floor(), work.trainer()
            ratios.append(trainer["step_us"] / floor["step_us"])
        outcome.figure("hand-written", floor["step_us"], "us")
        outcome.figure("trainer", trainer["step_us"], "us")
        ratio = statistics.median(ratios)
        if machine.rehearse:  # tiny steps on a CPU that others use
            outcome.figure("trainer over hand-written", ratio, "x")
        else:
            outcome.at_most("trainer over hand-written", ratio, limit, "x")


against_floor("gpt 4 x 128, float32", small_gpt, 1.15)
against_floor("gpt 12 x 768, bf16-mixed", large_gpt, 1.05)
against_floor("MNIST CNN, float32", mnist_cnn, 1.15)


@check(4, "data workers", "four are at most a tenth slower than none, MNIST CNN", needs="gpu")
def workers(machine, outcome):
    work = mnist_cnn(machine)
    none, four = (work.trainer("--data.num_workers", n)["step_us"] for n in (0, 4))
    outcome.figure("none", none, "us")
    outcome.at_most("four", four, 1.1 * none, "us")


@check(4, "one core", "the program warns of a rank on one core, and what that costs is told", needs="gpu")
def one_core(machine, outcome):
    work, options = small_gpt(machine), ("--data.num_workers", 1)
    try:
        machine.run(["taskset", "--version"])
    except FileNotFoundError:
        raise NotMeasurable("there is no taskset")
    fit = machine.fit("--model", "digits", "--strategy", "single", "--max_steps", 3)
    if "steps will wait for a core" not in machine.run(["taskset", "-c", first_core(), *fit]).output:
        outcome.fail("no warning")
    free = work.trainer(*options)["step_us"]
    bound = work.trainer(*options, before=("taskset", "-c", first_core()))["step_us"]
    outcome.figure("step", free, "us")
    outcome.figure("step on one core", bound, "us")
    outcome.figure("slower by", bound / free, "x")


def first_core():
    return str(min(os.sched_getaffinity(0)))


@check(4, "run.json's speed", "at most a twentieth more than was measured with the device waited for")
def told_speed(machine, outcome):
    work, folder = small_gpt(machine), machine.folder()
    measured = work.trainer(folder=folder)["samples_per_second"]
    told = read_run(folder)[0]["samples_per_second"]
    outcome.figure("measured", measured, "samples/s")
    outcome.at_most("run.json", told, measured * machine.size(1.05, 2.0), "samples/s")
