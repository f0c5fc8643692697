#!/usr/bin/env python3
"""Draws the pictures of the documents as SVG files, which follow the reader's light or dark theme.

    scripts/pictures.py [FOLDER]   (default: docs/pictures)
"""
import html
import pathlib
import sys

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .small { font-size: 11px; fill: #59636e }
  .title { font-weight: 600 }
  .box { fill: #f6f8fa; stroke: #8c959f }
  .work { fill: #ddf4ff; stroke: #0969da }
  .talk { fill: #fff8c5; stroke: #9a6700 }
  .good { fill: #dafbe1; stroke: #1a7f37 }
  .bad { fill: #ffebe9; stroke: #cf222e }
  .line { stroke: #59636e; fill: none }
  .head { fill: #59636e }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .small { fill: #9198a1 }
    .box { fill: #151b23; stroke: #656c76 } .work { fill: #0c2d6b; stroke: #4493f8 }
    .talk { fill: #3b2e00; stroke: #d29922 } .good { fill: #033a16; stroke: #3fb950 }
    .bad { fill: #490202; stroke: #f85149 } .line { stroke: #9198a1 } .head { fill: #9198a1 }
  }
"""


class Picture:
    def __init__(self, width, height, description):
        self.size = (width, height)
        self.description = description
        self.parts = []

    def text(self, x, y, words, kind="", anchor="start"):
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{html.escape(words)}</text>')

    def box(self, x, y, width, height, lines, kind="box"):
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="4"/>')
        first = y + height / 2 + 5 - 16 * (len(lines) - 1) / 2
        for i, line in enumerate(lines):
            self.text(x + width / 2, first + 16 * i, line, "" if i == 0 else "small", "middle")

    def arrow(self, *points, label=None, at=None):
        path = " ".join(f"{x},{y}" for x, y in points)
        self.parts.append(f'<polyline class="line" points="{path}" marker-end="url(#head)"/>')
        if label:
            self.text(*at, label, "small")

    def svg(self):
        width, height = self.size
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                f'height="{height}" role="img" aria-label="{html.escape(self.description)}">\n<style>{STYLE}</style>\n'
                '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
                'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def step():
    """One optimizer step of a rank: what overlaps with what."""
    p = Picture(860, 250, "One step of a rank: gradients are averaged while backward still runs")
    rows = {"compute": 50, "all-reduce": 105, "data workers": 160}
    for name, y in rows.items():
        p.text(10, y + 24, name, "title")
    p.box(120, 50, 150, 38, ["forward"], "work")
    p.box(274, 50, 240, 38, ["backward"], "work")
    p.box(560, 50, 80, 38, ["clip"], "work")
    p.box(644, 50, 100, 38, ["optimizer"], "work")
    p.box(748, 50, 100, 38, ["metrics, flags"], "work")
    for x, width, name in ((350, 70, "bucket 1"), (424, 70, "bucket 2"), (498, 58, "last")):
        p.box(x, 105, width, 38, [name], "talk")
    p.box(748, 105, 100, 38, ["flags"], "talk")
    p.box(120, 160, 728, 38, ["read and collate the next batches"], "box")
    p.arrow((345, 88), (385, 105))
    p.arrow((430, 88), (459, 105))
    p.arrow((512, 88), (527, 105))
    p.arrow((540, 105), (560, 88))
    p.arrow((120, 220), (848, 220))
    p.text(484, 240, "time", "small", "middle")
    p.text(120, 30, "A bucket goes out as soon as backward has filled it: only the last one is waited for.", "small")
    return p


def slurm_job():
    """The life of a job of slurm/train.sbatch."""
    p = Picture(860, 300, "The life of a Slurm job: it saves before its time is over, is requeued and resumes")
    p.box(10, 110, 120, 50, ["sbatch", "or --submit"], "box")
    p.box(170, 110, 110, 50, ["waits", "PENDING"], "box")
    p.box(320, 110, 150, 50, ["trains", "--ckpt_path auto"], "work")
    p.box(530, 20, 130, 50, ["done", "status 0"], "good")
    p.box(530, 110, 130, 50, ["saves, ends", "status 75"], "work")
    p.box(530, 200, 130, 50, ["fails", "any other status"], "bad")
    p.box(720, 110, 130, 50, ["scontrol requeue", "same job number"], "box")
    p.box(720, 200, 130, 50, ["ends", "2, 93, or 5 failures"], "bad")
    p.arrow((130, 135), (170, 135))
    p.arrow((280, 135), (320, 135))
    p.arrow((395, 110), (395, 45), (530, 45), label="last epoch", at=(405, 58))
    p.arrow((470, 135), (530, 135))
    p.text(476, 96, "USR1, SIGTERM,", "small")
    p.text(476, 110, "time limit", "small")
    p.arrow((395, 160), (395, 225), (530, 225), label="error, node lost", at=(405, 218))
    p.arrow((660, 135), (720, 135))
    p.arrow((660, 225), (720, 225))
    p.arrow((640, 200), (740, 160))
    p.arrow((785, 110), (785, 8), (225, 8), (225, 110), label="resumes from the newest complete checkpoint", at=(240, 22))
    p.text(10, 285, "The script adds up failures without a newer success in the file failures of the job's folder.", "small")
    return p


def checkpoint():
    """Where a checkpoint is at each moment, and what a crash leaves there."""
    p = Picture(860, 240, "A checkpoint is copied, written, synced and renamed; a crash leaves the one before")
    steps = (("copy", "step stands still", "work"), ("write shards", "a thread per rank", "box"),
             ("sync files", "fsync", "box"), ("manifest", "sums, rank 0", "box"), ("rename", "visible", "good"),
             ("remove old", "beyond top-k", "box"))
    for i, (name, what, kind) in enumerate(steps):
        p.box(10 + 142 * i, 50, 122, 50, [name, what], kind)
        if i:
            p.arrow((142 * i - 10, 75), (10 + 142 * i, 75))
    p.text(10, 35, "training thread", "small")
    p.text(152, 35, "training continues", "small")
    p.arrow((152, 128), (560, 128))
    p.text(160, 148, "a crash here leaves NAME.ckpt.part: the next run removes it and resumes from the checkpoint before", "small")
    p.arrow((578, 172), (850, 172))
    p.text(578, 192, "a crash here leaves a complete checkpoint", "small")
    return p


def layers():
    """The folders of src/cxtrain, the highest first: each includes from itself and from those below."""
    p = Picture(860, 440, "The layers of the library, from the command line down to files and clocks")
    rows = ((("cli", "command line, YAML, subcommands"), ("trainer", "loops, hooks, state")),
            (("callbacks", "checkpoints, early stopping"), ("scaling", "studies"), ("report", "files, bar, HTML")),
            (("plugin", "C ABI, registry"), ("strategy", "how a step is spread")),
            (("data", "batches"), ("optim", "optimizers"), ("precision", "AMP"), ("reduce", "gradients")),
            (("accelerator", "port to devices"), ("comm", "collectives"), ("cuda", "a library, opened for GPUs")),
            (("checkpoint", "files of tensors"), ("memory", "blocks"), ("state", "parameters"), ("tensor", "layouts")),
            (("doctor", "checks"), ("launchers", "start ranks"), ("config", "options, plan"), ("device", "hardware"),
             ("cluster", "ranks, deadlines"), ("base", "errors, files")))
    for i, row in enumerate(rows):
        y = 10 + 58 * i
        width = (840 - 10 * (len(row) - 1)) / len(row)
        for j, (name, what) in enumerate(row):
            kind = "box" if i == len(rows) - 1 else "talk" if name == "cuda" else "work"
            p.box(10 + (width + 10) * j, y, width, 48, [name, what], kind)
    p.text(430, 432, "The lowest row is compiled without LibTorch.", "small", "middle")
    return p


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent / "docs/pictures")
    folder.mkdir(parents=True, exist_ok=True)
    for draw in (step, slurm_job, checkpoint, layers):
        (folder / f"{draw.__name__}.svg").write_text(draw().svg())


main()
