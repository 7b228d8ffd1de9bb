"""Runs probes in new processes and reads their results."""

import subprocess
import sys

import msgspec

from bench.homes import RUN
from bench.places import ROOT


class Found(msgspec.Struct):
    """`grown` is the peak growth of the process after its imports, in bytes."""

    seconds: list[float]
    events: int
    grown: int


def probe_command(what: str, home: str, count: int) -> list[str]:
    return [sys.executable, "-m", "bench.probe", what, home, RUN, str(count)]


def probe(what: str, home: str, count: int = 1) -> Found:
    done = subprocess.run(probe_command(what, home, count), cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Found)
