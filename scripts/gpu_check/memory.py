"""10: no access out of bounds, and no more memory than parameters, gradients and the optimizer's state want."""

import shutil

from checks import check
from report import NotMeasurable
from trainings import read_run


@check(10, "compute-sanitizer memcheck", "no error in 3 steps of digits in 16-mixed with O2", needs="gpu")
def memcheck(machine, outcome):
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        raise NotMeasurable("compute-sanitizer is not installed")
    fit = machine.fit("--model", "digits", "--precision", "16-mixed", "--amp_level", "O2", "--max_steps", 3)
    done = machine.run([tool, "--tool", "memcheck", "--error-exitcode", "99", *fit], seconds=400)
    outcome.expect("exit status", done.status, 0)
    if "ERROR SUMMARY: 0 errors" not in done.output:
        outcome.fail(done.tail())


@check(10, "memory of a training", "4 to 4.5 times the parameters, which with Adam come four times", needs="gpu")
def peak_memory(machine, outcome):
    wide, narrow = 12800, 6400
    folder = machine.folder()
    done = machine.run(machine.fit("--model", "simple", "--model.in", wide, "--model.out", narrow, "--max_steps", 3,
                                   "--strategy", "single", "--limit_val_batches", 0, folder=folder))
    outcome.expect("exit status", done.status, 0)
    if done.status != 0:
        outcome.fail(done.tail())
        return
    parameters = 4 * (wide * narrow + narrow)
    peak = read_run(folder)[0]["peak_device_memory_bytes"]
    outcome.figure("parameters", parameters / 2**20, "MiB")
    outcome.figure("peak", peak / 2**20, "MiB")
    outcome.at_most("peak over parameters", peak / parameters, 4.5, "x")
    if peak < 4 * parameters:
        outcome.fail("that is less than these take: it was not all counted")
