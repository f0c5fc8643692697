"""8: two ranks on one GPU, by way of host memory; one that is killed, and one that stops."""

import json
import os
import pathlib
import signal
import time

from checks import check
from trainings import learns

DIGITS = ["--model", "digits", "--max_epochs", 4]
LEARNS = "it ends with status 0, the loss falls by a tenth, run.json agrees with the metrics"


STAGED = ["cuda:0", "staged through host memory"]


@check(8, "two ranks, --bind-to none", LEARNS + ", gradients go by way of host memory")
def free(machine, outcome):
    learns(machine, outcome, DIGITS, ranks=2, says=machine.size(STAGED, []))


@check(8, "two ranks in 16-mixed", LEARNS + ", gradients go by way of host memory", needs="gpu")
def mixed(machine, outcome):
    learns(machine, outcome, DIGITS, ranks=2, precision="16-mixed", says=STAGED)


@check(8, "two ranks of a core each", LEARNS + ", and the program warns of too few cores")
def bound(machine, outcome):
    """As mpirun binds two ranks where nothing else is said."""
    says = machine.size(STAGED, []) + ["steps will wait for a core"]
    options = DIGITS + ["--data.num_workers", 1]
    learns(machine, outcome, options, ranks=2, bind_to="core:overload-allowed", says=says)


class EndlessJob:
    """Two ranks that train the digits until somebody ends them."""

    def __init__(self, machine, *options, gpus=1):
        self.folder = machine.folder()
        fit = machine.fit("--model", "digits", "--strategy", "ddp", "--max_epochs", -1, "--log_every_n_steps", 1,
                          "--enable_progress_bar", "false", *options, folder=self.folder)
        self.running = machine.start(machine.mpirun(2) + fit, gpus=gpus)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.running.end()

    def wait_for_steps(self, seconds=60):
        rows = self.folder / "cxtrain_logs" / "version_0" / "metrics.jsonl"
        self.wait_for(lambda: rows.exists() and rows.read_text().count("\n") > 20, "no steps", seconds)

    def rank(self, number):
        """The process that is this rank."""
        variable = f"OMPI_COMM_WORLD_RANK={number}".encode()
        found = []

        def look():
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    words = (process / "cmdline").read_bytes().split(b"\0")
                    of_job = str(self.folder).encode() in words and b"mpirun" not in words[0]
                    if of_job and variable in (process / "environ").read_bytes().split(b"\0"):
                        found.append(int(process.name))
                except OSError:
                    pass
            return found

        self.wait_for(look, f"no rank {number}", 30)
        return found[0]

    def wait_for(self, condition, otherwise, seconds):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end or self.running.process.poll() is not None:
                raise RuntimeError(otherwise + ": " + self.running.wait(1).tail())
            time.sleep(0.05)

    def run_status(self):
        return json.loads((self.folder / "cxtrain_logs" / "version_0" / "run.json").read_text())["status"]


def killed(machine, outcome, gpus=1):
    with EndlessJob(machine, gpus=gpus) as job:
        job.wait_for_steps()
        os.kill(job.rank(1), signal.SIGKILL)
        hit = time.monotonic()
        done = job.running.wait(60)
        outcome.expect("exit status", done.status, 137)
        outcome.at_most("the job ended after", time.monotonic() - hit, 15, "s")
        if "signal 9" not in done.output:
            outcome.fail(f"nobody says that a rank was killed: {done.tail()}")
        outcome.expect("run.json's status", job.run_status(), "failed")


def stopped(machine, outcome, gpus=1):
    timeout = machine.size(20, 3)
    with EndlessJob(machine, "--timeout_seconds", timeout, gpus=gpus) as job:
        job.wait_for_steps()
        process = job.rank(1)
        os.kill(process, signal.SIGSTOP)
        hit = time.monotonic()
        done = job.running.wait(timeout + 60)
        after = time.monotonic() - hit
        outcome.expect("exit status", done.status, 1)
        outcome.at_least("the job ended after", after, timeout - 1, "s")
        outcome.at_most("beyond the timeout", after - timeout, 15, "s")
        errors = [line for line in done.output.splitlines() if "error: " in line]
        outcome.expect("lines with an error", len(errors), 1)
        if f"rank 1 (process {process}) on " not in done.output:
            outcome.fail(f"nobody names the rank that stopped: {done.tail()}")
        outcome.note("; ".join(errors)[:200])


KILLED = "within 15 s the job ends with status 137, mpirun says why, run.json says failed"
STOPPED = "at most 15 s after --timeout_seconds the job ends with status 1, and one line names the rank, host and step"
check(8, "kill -9 of a rank", KILLED)(killed)
check(8, "kill -STOP of a rank", STOPPED)(stopped)
