#!/usr/bin/env python3
"""Trains with eight ranks in every way in which gradients may travel: every training has to end with the same parameters, to the bit.

    tests/reliability/one_hash.py [--build build/release] [--steps 200]

The ways are 1, 2, 4 and 8 emulated nodes, connections by TCP and messages by MPI, overlap with backward and none, buckets of three
sizes: 48 trainings. Needs root and iproute2 (tests/support/nodes.sh). Ends with 1 where a training differs.
"""

import argparse
import itertools
import json
import pathlib
import sys
import tempfile

from ranks import emulated_nodes, hosts_of, train_on_nodes

RANKS = 8
SIZES = [[], ["--strategy.first_bucket_bytes", "1000", "--strategy.bucket_bytes", "20000"], ["--strategy.bucket_bytes", "100000000"]]


def parameters_after(options, nodes, ways):
    """The SHA-256 of the parameters, which all ranks agree on."""
    program = pathlib.Path(options.build).resolve() / "bin" / "cxtrain_mpi"
    training = ["--strategy", "ddp", "--seed", "3", "--max_steps", str(options.steps), "--data.batch_size", "8", "--optimizer", "adamw"]
    with tempfile.TemporaryDirectory(prefix="cxtrain_hash_") as folder:
        run = train_on_nodes(program, hosts_of(nodes, RANKS // nodes), [*training, *ways], pathlib.Path(folder))
        return json.loads((run / "run.json").read_text())["parameters_sha256"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    found = {}
    with emulated_nodes(RANKS):
        for nodes, way, overlap, sizes in itertools.product([1, 2, 4, 8], ["tcp", "mpi"], ["true", "false"], SIZES):
            ways = ["--strategy.network", way, "--strategy.overlap", overlap, *sizes]
            sha = parameters_after(options, nodes, ways)
            found.setdefault(sha, []).append(f"{nodes} nodes: {' '.join(ways)}")
            print(sha[:16], found[sha][-1], flush=True)
    print(f"{sum(map(len, found.values()))} trainings of {options.steps} steps, {len(found)} different results")
    sys.exit(0 if len(found) == 1 else 1)


if __name__ == "__main__":
    main()
