"""9: errors on the device end a job with a message and a status, and a search for a batch size outlives them."""

import json

from checks import check


def label_out_of_range(machine, outcome, ranks, gpus=1):
    """A model (tests/plugins/wrong_label.cpp) that has such a label at step 5, on its last rank."""
    folder, last = machine.folder(), ranks - 1
    launch = machine.mpirun(ranks) if ranks > 1 else []
    model = ["--plugin", machine.plugin("wrong_label"), "--model", "wrong_label", "--model.rank", last]
    strategy = "ddp" if ranks > 1 else "single"
    fit = machine.fit(*model, "--strategy", strategy, "--timeout_seconds", 60, folder=folder)
    done = machine.run(launch + fit, seconds=90, gpus=gpus)
    outcome.expect("exit status", done.status, 1)
    outcome.at_most("it ended after", done.seconds, 45, "s")
    errors = [line for line in done.output.splitlines() if "error: " in line]
    for text in (f"error: rank {last} on ", ", step "):
        if not any(text in line for line in errors):
            outcome.fail(f"no line of error says {text!r}: {done.tail()}")
    if "terminate called" in done.output:
        outcome.fail("it ended by std::terminate")
    run = json.loads((folder / "cxtrain_logs" / "version_0" / "run.json").read_text())
    outcome.expect("run.json's status", run["status"], "failed")
    outcome.note("; ".join(errors)[:200])


MESSAGE = "within 45 s, before any timeout, it ends with status 1, and the error names rank, host and step"


@check(9, "a label out of range, one rank", MESSAGE)
def one_rank(machine, outcome):
    label_out_of_range(machine, outcome, ranks=1)


@check(9, "a label out of range, two ranks", MESSAGE)
def two_ranks(machine, outcome):
    label_out_of_range(machine, outcome, ranks=2)


def batch_size_search(machine, outcome, ranks=1, gpus=1):
    gpt = ["gpt", "--model.layers", 4, "--model.width", 256, "--model.context", 512, "--model.sample_bytes", 0]
    launch = machine.mpirun(ranks) if ranks > 1 else []
    fit = machine.fit("--model", *machine.size(gpt, ["digits"]), "--strategy", "ddp" if ranks > 1 else "single",
                      "--auto_scale_batch_size", "binsearch", "--max_steps", 2, "--limit_val_batches", 0)
    # So that memory is used up soon, and by small batches.
    done = machine.run(launch + fit, gpus=gpus, PYTORCH_CUDA_ALLOC_CONF="per_process_memory_fraction:0.05")
    outcome.expect("exit status", done.status, 0)
    found = [line for line in done.output.splitlines() if "training with --data.batch_size " in line]
    if done.status != 0 or not found:
        outcome.fail(done.tail())
        return
    outcome.figure("batch size", int(found[0].split()[-1]))
    if not machine.rehearse and "does not fit" not in done.output:
        outcome.fail("no size was too large: memory was not under pressure")


SEARCH = "it passes over sizes that do not fit, ends with status 0 and trains"
check(9, "batch size search with too little memory", SEARCH)(batch_size_search)
