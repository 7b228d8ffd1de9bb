"""The files of a run under a home, for tests that lay hands on them."""

import os

from holdfast.store.files.layout import INBOX, LOCK, LOG, SNAPSHOT, run_folder

RUN = "run-aaaaaa"


def log_file(home: str, run_id: str = RUN) -> str:
    return os.path.join(run_folder(home, run_id), LOG)


def inbox_file(home: str, run_id: str = RUN) -> str:
    return os.path.join(run_folder(home, run_id), INBOX)


def lock_file(home: str, run_id: str = RUN) -> str:
    return os.path.join(run_folder(home, run_id), LOCK)


def snapshot_file(home: str, run_id: str = RUN) -> str:
    return os.path.join(run_folder(home, run_id), SNAPSHOT)


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def put_content(path: str, data: bytes) -> None:
    """In place: the file stays the same file."""
    with open(path, "r+b" if os.path.exists(path) else "wb") as file:
        file.write(data)
        file.truncate()


def torn_pieces(path: str) -> dict[str, bytes]:
    """What was ever cut off the end of a file, by the names it is kept under."""
    folder, name = os.path.split(path)
    return {
        entry: content(os.path.join(folder, entry))
        for entry in sorted(os.listdir(folder))
        if entry.startswith(f"{name}.torn-")
    }


def remove(*paths: str) -> None:
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)
