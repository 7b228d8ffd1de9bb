"""Finds the processes with either of our marks: an environment variable, or an open file."""

import os
from collections.abc import Iterator

from holdfast.leaf.process.env_markers import environment_of, environments_after_exec, read_environment
from holdfast.leaf.process.fd_marker import holder_finder
from holdfast.leaf.process.identity import ProcessIdentity, identify
from holdfast.leaf.process.proc import MAX_READS, PROCESS_NOT_VISIBLE, NoProgram, pids

_ROUNDS = 2 * MAX_READS  # one scan, for two marks


def iter_marked_or_holding(
    variable: str, value: str, path: str | None, mark: str | None = None, *, since: int = 0
) -> Iterator[ProcessIdentity]:
    """Every process that inherited this variable or holds this marker file, in one scan of those that started since.

    Yields each process at once: by the end of the scan it may have been replaced. Dead processes and threads of the
    kernel, half of those of a machine, are looked at once.
    """
    wanted = os.fsencode(f"{variable}={value}")
    holder = holder_finder(path, mark)
    in_exec: list[int] = []
    for pid in pids(since, _ROUNDS):
        try:
            inherited = read_environment(pid)
        except NoProgram:
            continue
        except PROCESS_NOT_VISIBLE:
            inherited = []
        if inherited is None:
            in_exec.append(pid)
        process = _identify_marked(pid, wanted, inherited or [])
        if process is None and holder is not None:
            process = holder(pid)
        if process is not None:
            yield process
    for pid, inherited in environments_after_exec(in_exec):
        process = _identify_marked(pid, wanted, inherited)
        if process is not None:
            yield process


def _identify_marked(pid: int, wanted: bytes, inherited: list[bytes]) -> ProcessIdentity | None:
    """The environment is checked again after the process is identified: its pid may have been reused in between."""
    if wanted not in inherited:
        return None
    process = identify(pid)
    return process if process is not None and wanted in (environment_of(pid) or ()) else None
