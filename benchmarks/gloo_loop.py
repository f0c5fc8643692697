"""The loop of bench_floor_loop in Python with PyTorch's DistributedDataParallel over Gloo: the same networks, samples, batch order and
fused optimizer kernel. Prints the same JSON line (rank 0).

    MASTER_ADDR=n1 MASTER_PORT=29500 mpirun ... python3 gloo_loop.py --model mlp|gpt --data PATH --batch N --steps N [--warmup N]
"""

import argparse
import json
import os
import resource
import time

STARTED = time.monotonic()

import torch  # noqa: E402  (the clock of the first step starts before)
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch_models import add_work_arguments, make_work  # noqa: E402


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_work_arguments(parser)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=10)
    options = parser.parse_args()
    rank, ranks = int(os.environ["OMPI_COMM_WORLD_RANK"]), int(os.environ["OMPI_COMM_WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    net, data = make_work(options)
    model, optimizer, samples = DistributedDataParallel(net), net.optimizer(fused=True), len(data[0])
    everyone = options.batch * ranks
    epoch, position, first_step = 0, samples, 0.0
    for step in range(options.steps):
        if step == options.warmup:
            started = time.monotonic()
        if position + everyone > samples:
            order = torch.randperm(samples, generator=torch.Generator().manual_seed(epoch))
            epoch, position = epoch + 1, 0
        own = order[position + rank : position + everyone : ranks]
        loss = net.loss([part[own] for part in data], model)
        position += everyone
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 0:
            first_step = time.monotonic() - STARTED
    seconds, measured = time.monotonic() - started, options.steps - options.warmup
    if rank == 0:
        line = {
            "step_us": seconds / measured * 1e6,
            "samples_per_second": measured * everyone / seconds,
            "first_step_seconds": first_step,
            "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "loss": loss.item(),
        }
        print(json.dumps(line), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
