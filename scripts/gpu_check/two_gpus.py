"""11: what one GPU cannot show. Parameters that agree with one GPU's (dp, split models, synchronised batch norm) are
cases of gpu_tests, which have both GPUs, too."""

from checks import check
from step_times import large_gpt
from trainings import learns
from two_ranks import DIGITS, KILLED, LEARNS, STOPPED, killed, stopped
from ways_out import MESSAGE, SEARCH, batch_size_search, label_out_of_range


def on_two(name, expectation):
    return check(11, name, expectation, needs="two gpus")


@on_two("two ranks with a GPU each", LEARNS + ", gradients go through NCCL")
def trains(machine, outcome):
    learns(machine, outcome, DIGITS, ranks=2, gpus=2, says=["NCCL 2."])


@on_two("kill -9 of a rank in NCCL's collectives", KILLED)
def kill(machine, outcome):
    killed(machine, outcome, gpus=2)


@on_two("kill -STOP of a rank in NCCL's collectives", STOPPED)
def stop(machine, outcome):
    stopped(machine, outcome, gpus=2)


@on_two("a label out of range, a GPU each", MESSAGE)
def label(machine, outcome):
    label_out_of_range(machine, outcome, ranks=2, gpus=2)


@on_two("batch size search over NCCL", SEARCH)
def search(machine, outcome):
    batch_size_search(machine, outcome, ranks=2, gpus=2)


@on_two("reduction beside backward", "steps that overlap them are slower than others by a twentieth at most")
def overlap(machine, outcome):
    work = large_gpt(machine)
    both, after = (
        work.trainer("--strategy", "ddp", "--strategy.overlap", value, before=machine.mpirun(2), gpus=2)["step_us"]
        for value in ("true", "false")
    )
    outcome.figure("without overlap", after, "us")
    outcome.at_most("with overlap", both, 1.05 * after, "us")
