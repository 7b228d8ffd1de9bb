"""Lets a person change a text in the editor that they use elsewhere."""

import asyncio
import os
import shlex
import subprocess
import tempfile

from prompt_toolkit.application import in_terminal

from holdfast.leaf.errors import BadInput


async def edit_in_terminal(text: str) -> str:
    """Return the text as the person saved it. `BadInput` when the editor failed."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    async with in_terminal():
        return await asyncio.to_thread(_edit, command, text)


def _edit(command: list[str], text: str) -> str:
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = os.path.join(folder, "plan.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            ended = subprocess.run([*command, path], check=False)
        except OSError as error:
            raise BadInput(f"cannot start the editor {command[0]}: {error.strerror}; set EDITOR") from error
        if ended.returncode != 0:
            raise BadInput(f"{command[0]} ended with code {ended.returncode}; nothing was changed")
        with open(path, encoding="utf-8") as file:
            return file.read()
