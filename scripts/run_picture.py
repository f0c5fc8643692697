#!/usr/bin/env python3
"""Draws docs/run.svg: a run of the built-in example as a terminal of 100 columns shows it. Needs a build (scripts/quickstart.sh).

    scripts/run_picture.py [--program build/release/bin/cxtrain_mpi] [--out docs/run.svg]
"""

import argparse
import fcntl
import html
import os
import pathlib
import pty
import re
import struct
import sys
import tempfile
import termios

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS, LINES = 100, 40
EPOCHS = 4
# Pixels, and a palette that is legible on light and dark pages.
WIDTH, HEIGHT, MARGIN = 8.4, 19, 18
BACKGROUND, TEXT, PROMPT, DIM = "#1b1f27", "#d7dae0", "#8fd694", "#8a919e"


def run_in_terminal(program, folder):
    """What the program writes to a terminal of COLUMNS x LINES."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ["TERM"] = "xterm"
        os.chdir(folder)
        os.execv(program, [program, "--devices", "4", "--max_epochs", str(EPOCHS)])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    output = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        output += part
    if os.waitpid(process, 0)[1] != 0:
        sys.exit(f"the run failed:\n{output.decode()}")
    return output.decode()


def lines_of(output):
    """The lines that stay on the screen: a carriage return begins a line again."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output).replace("\r\n", "\n")
    lines = [line.split("\r")[-1].rstrip() for line in text.rstrip("\n").split("\n")]
    return [line[at : at + COLUMNS] for line in lines for at in range(0, max(len(line), 1), COLUMNS)]


def svg_of(command, lines):
    rows = [(f"$ {command}", PROMPT)] + [(line, DIM if line.startswith(("  |", "---")) else TEXT) for line in lines]
    width, height = COLUMNS * WIDTH + 2 * MARGIN, len(rows) * HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
        ' role="img" aria-label="A run on four ranks in a terminal">',
        f'<rect width="100%" height="100%" rx="10" fill="{BACKGROUND}"/>',
        '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="14"'
        ' xml:space="preserve">',
    ]
    for i, (line, color) in enumerate(rows):
        y = MARGIN + (i + 0.75) * HEIGHT
        length = f' textLength="{len(line) * WIDTH:.1f}"' if line else ""
        parts.append(f'<text x="{MARGIN}" y="{y:.1f}" fill="{color}"{length}>{html.escape(line)}</text>')
    return "\n".join(parts + ["</g>", "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=ROOT / "build/release/bin/cxtrain_mpi", type=pathlib.Path)
    parser.add_argument("--out", default=ROOT / "docs/run.svg", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        output = run_in_terminal(str(options.program.resolve()), folder)
    options.out.write_text(svg_of(f"cxtrain_mpi --devices 4 --max_epochs {EPOCHS}", lines_of(output)))


if __name__ == "__main__":
    main()
