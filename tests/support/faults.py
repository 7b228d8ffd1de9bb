"""System calls that fail in a program that is not ours to change: by strace, which tells of them too."""

import os
import shutil
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


def run_with_faults(code: str, *arguments: str, trace: str, faults: str, paths: tuple[str, ...] = ()) -> list[str]:
    """Run Python code to its end. What it called is told, of `trace`, on these paths."""
    strace = shutil.which("strace")
    if strace is None or subprocess.run([strace, "-o", os.devnull, "true"], check=False).returncode:
        pytest.skip("NOT TESTED: system calls that fail (no strace, or it may not trace)")
    only = [word for path in paths for word in ("-P", path)]
    inject = ["-e", f"inject={faults}"] if faults else []
    command = [strace, "-f", "-y", "-o", "/dev/stdout", "-e", f"trace={trace}", *inject, *only]
    done = subprocess.run(
        [*command, sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
