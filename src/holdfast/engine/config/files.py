"""The files that settings come from, and which of them the user trusts."""

import hashlib
import os
import re
from contextlib import suppress
from typing import Any, NamedTuple

from holdfast.core.config.toml_lines import KeyPath, key_lines
from holdfast.engine.home import Home
from holdfast.leaf.errors import BadInput, NothingToDo
from holdfast.leaf.files.directories import sync_directory
from holdfast.leaf.files.disk import REAL_DISK, make_directories, write_all
from holdfast.leaf.files.supplied import read_repository_file, repository_root

PROJECT_FILE = ".holdfast.toml"

_MAX_FILE_BYTES = 256 * 1024
_TOML_ERROR_LINE = re.compile(r"\(at line (\d+), column \d+\)$|\(at end of document\)$")


class ConfigDocument(NamedTuple):
    """A file's content, with the line of each key. `digest` identifies this content at this path."""

    file: str
    table: dict[str, Any]
    lines: dict[KeyPath, int]
    digest: str


def project_file_path(folder: str) -> str | None:
    """Return the path of the project file of the repository that contains the folder; None outside a repository."""
    here = os.path.realpath(folder)
    if not os.path.isdir(here):
        raise BadInput(f"{folder} is not a folder; name a git repository")
    root = repository_root(here)
    return os.path.join(root, PROJECT_FILE) if root is not None else None


def read_config(file: str) -> ConfigDocument | None:
    """Return None if there is no such file. `BadInput` names the line of a TOML error."""
    try:
        content = _read_bytes(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{file}: {error.strerror}; a config is a TOML file that you can read") from None
    text = _decode(file, content)
    import tomllib  # noqa: PLC0415 - slow to import, and many homes have no config

    try:
        table = tomllib.loads(text)
        lines = key_lines(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(_toml_error_text(file, text, str(error))) from None
    except RecursionError:
        raise BadInput(f"{file}:1: nested too deeply; a config needs five levels at most") from None
    return ConfigDocument(file, table, lines, _digest(file, content))


def _digest(file: str, content: bytes) -> str:
    return hashlib.sha256(os.fsencode(file) + b"\0" + content).hexdigest()


def _decode(file: str, content: bytes) -> str:
    try:
        return content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{file}:{line}: not UTF-8; a config is TOML in UTF-8") from None


def _read_bytes(file: str) -> bytes:
    content = read_repository_file(file, _MAX_FILE_BYTES + 1)
    if len(content) > _MAX_FILE_BYTES:
        raise BadInput(f"{file}: larger than {_MAX_FILE_BYTES} bytes; a config is a small TOML file")
    return content


def _toml_error_text(file: str, text: str, error_text: str) -> str:
    match = _TOML_ERROR_LINE.search(error_text)
    line = int(match[1]) if match and match[1] else len(text.rstrip("\n").split("\n"))
    what = _TOML_ERROR_LINE.sub("", error_text).strip()
    return f"{file}:{line}: not TOML: {what[:1].lower()}{what[1:]}"


def create_config(file: str, text: str) -> None:
    """Create a config file; never overwrite an existing one."""
    folder = os.path.dirname(file)
    make_directories(folder)
    temporary = f"{file}.{os.getpid()}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(REAL_DISK, fd, text.encode())
        REAL_DISK.sync(fd)
        os.link(temporary, file)  # unlike a rename, this never replaces a file
    except FileExistsError:
        raise NothingToDo(f"{file} exists already; nothing was written") from None
    finally:
        os.close(fd)
        os.unlink(temporary)
    sync_directory(folder)


# --- trust: a file named after the digest that is trusted -----------------------------------------------


def is_trusted(home: Home, document: ConfigDocument) -> bool:
    return _has_trust_record(home, document.digest)


def is_trusted_now(home: Home, file: str) -> bool:
    """Return the same for a file that may not be a config at all. For display only: the file may change at any time."""
    try:
        return _has_trust_record(home, _digest(file, _read_bytes(file)))
    except (OSError, BadInput):
        return False


def _has_trust_record(home: Home, digest: str) -> bool:
    return os.path.exists(os.path.join(home, "trusted", digest))


def record_trust(home: Home, document: ConfigDocument) -> None:
    """Trust the file until its content changes. The trust file contains, for people, the path that it is about."""
    folder = os.path.join(home, "trusted")
    make_directories(folder)
    with suppress(FileExistsError):
        fd = os.open(os.path.join(folder, document.digest), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(REAL_DISK, fd, os.fsencode(f"{document.file}\n"))
            REAL_DISK.sync(fd)
        finally:
            os.close(fd)
    sync_directory(folder)
