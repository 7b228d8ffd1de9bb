"""The least that a journal of 64 producers can do: encode each event, hash it, take turns, and sync once for all.

There is no envelope, chain, check, fold or snapshot in it. What lies between this and the real one is ours to mend;
what lies beyond it is not.
"""

import asyncio
import os
from hashlib import sha256

import msgspec

from holdfast.core.events import Draft

_encode = msgspec.json.Encoder().encode


class Least:
    def __init__(self, folder: str) -> None:
        self.width = 0  # bytes a line, so that they are as long as the real ones
        self._fd = os.open(os.path.join(folder, "least"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._kept: list[bytes] = []

    async def append(self, draft: Draft) -> None:
        line = _encode(draft)[: self.width].ljust(self.width)
        sha256(line).hexdigest()
        self._kept.append(line)
        first = len(self._kept) == 1
        await asyncio.sleep(0)
        if first:  # whoever waits is woken after us, in the order in which they came
            kept, self._kept = self._kept, []
            os.write(self._fd, b"".join(kept))
            os.fdatasync(self._fd)

    def close(self) -> None:
        os.close(self._fd)
