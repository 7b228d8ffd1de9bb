"""The paths of files in HOLDFAST_HOME. One folder holds a whole run; `HOLDFAST_HOME` moves everything.

Imports as little as possible: listing runs must start as fast as Python.
"""

import os

LOG = "events.jsonl"
COMPRESSED_SUFFIX = ".gz"  # of the log of an archived run (see `log_bytes`)
INBOX = "inbox.jsonl"
REPORTS = "reports"  # a folder with a file for each confined agent
SNAPSHOT = "snapshot.json"
LOCK = "owner.lock"


def default_home() -> str:
    """`$HOLDFAST_HOME`, else `holdfast` in the XDG data directory."""
    home = os.environ.get("HOLDFAST_HOME")
    if home:
        return os.path.abspath(home)
    data = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, "holdfast")


def runs_folder(home: str) -> str:
    return os.path.join(home, "runs")


def trash_folder(home: str) -> str:
    """Return the folder of runs that are being deleted. Everything in it can be deleted."""
    return os.path.join(home, "trash")


def run_folder(home: str, run_id: str) -> str:
    return f"{home}/runs/{run_id}"


def has_log(folder: str) -> bool:
    """Whether a folder is that of a run: it has a log, plain or compressed."""
    return os.path.exists(f"{folder}/{LOG}") or os.path.exists(f"{folder}/{LOG}{COMPRESSED_SUFFIX}")


def log_file(folder: str) -> str:
    """Return the file of the log in a folder: the compressed one only when there is no plain one."""
    plain = f"{folder}/{LOG}"
    compressed = f"{plain}{COMPRESSED_SUFFIX}"
    return compressed if not os.path.exists(plain) and os.path.exists(compressed) else plain


def catalog_file(home: str) -> str:
    return os.path.join(home, "catalog.sqlite")
