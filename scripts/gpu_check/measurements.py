"""5, 6 and 7: what gpu_bench measures inside of one process. The limits are docs/gpu.md's."""

from checks import check


def take(outcome, figures, name, at_most=None, at_least=None):
    value, unit = figures[name]
    if at_most is not None:
        outcome.at_most(name, value, at_most, unit)
    elif at_least is not None:
        outcome.at_least(name, value, at_least, unit)
    else:
        outcome.figure(name, value, unit)
    return value


@check(
    5,
    "synchronised batch norm",
    "the native one's numbers, at most 2.5 times its time and twice its memory, on [64, 256, 56, 56]",
)
def sync_batch_norm(machine, outcome):
    figures = machine.bench("sync_batch_norm")
    for dtype, difference in (("Float", 1e-4), ("Half", 2e-2)):
        take(outcome, figures, f"output differs by {dtype}", at_most=difference)
        take(outcome, figures, f"gradient differs by {dtype}", at_most=difference)
        for name in ("native", "synchronised", "host time native", "host time synchronised"):
            take(outcome, figures, f"{name} {dtype}")
        take(outcome, figures, f"synchronised over native {dtype}", at_most=machine.size(2.5, 1e9))
        native = f"memory of a step native {dtype}"
        if native in figures:
            limit = 2 * take(outcome, figures, native)
            take(outcome, figures, f"memory of a step synchronised {dtype}", at_most=limit)


@check(6, "an NCCL call on the host", "at most 25 us with a blocking communicator, more with a non-blocking one")
def nccl_calls(machine, outcome):
    figures = machine.bench("nccl_calls")
    take(outcome, figures, "blocking", at_most=25)
    take(outcome, figures, "non-blocking")
    take(outcome, figures, "non-blocking costs more", at_least=0)


@check(7, "copies between host and device", "page-locked memory reaches 0.7 of the bus's bandwidth, other memory less")
def host_copies(machine, outcome):
    figures = machine.bench("host_copies")
    bus = bus_bandwidth(machine)
    if bus is None:
        outcome.note("nvidia-smi does not tell the bus; judged as PCIe 3.0 x16")
        bus = 16 * LANE[3]
    outcome.figure("bus", bus, "GB/s")
    pinned = take(outcome, figures, "page-locked to device", at_least=0.7 * bus)
    take(outcome, figures, "pageable to device", at_most=pinned)
    take(outcome, figures, "device to page-locked", at_least=0.7 * bus)


# GB/s of a lane in one direction, by PCIe's generation.
LANE = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}


def bus_bandwidth(machine):
    """GB/s of what connects the first GPU; None where nobody tells."""
    query = ["nvidia-smi", "--query-gpu=uuid,pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader"]
    try:
        listed = machine.run(query, gpus=99)
    except FileNotFoundError:
        return None
    for line in listed.output.splitlines():
        words = [word.strip() for word in line.split(",")]
        if len(words) == 3 and words[0] == machine.gpus[0]["uuid"] and words[1].isdigit() and words[2].isdigit():
            return LANE.get(int(words[1]), 0) * int(words[2]) or None
    return None


@check(7, "a copy beside computation", "at least 0.7 of the shorter is hidden behind the longer")
def copy_overlap(machine, outcome):
    figures = machine.bench("copy_overlap")
    for name in ("copy", "computation", "both at once"):
        take(outcome, figures, name)
    take(outcome, figures, "hidden share", at_least=0.7)


@check(7, "gradients into a bucket", "160 copies take at least twice as long as one call for all of them")
def bucket_copies(machine, outcome):
    figures = machine.bench("bucket_copies")
    for name in ("160 copies, host", "160 copies, done", "one call, host", "one call, done"):
        take(outcome, figures, name)
    take(outcome, figures, "160 copies over one call", at_least=machine.size(2, 0))
