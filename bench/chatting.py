"""A chat at a terminal: how soon the screen shows what the agent says, with the runner as a process of its own."""

import asyncio
import json
import os
import pty
import subprocess
import sys
import time

from bench.figure import Figure, Target, number, spread

_IDLE_S = 600  # longer than the bench: the runner is stopped at the end


def measure(folder: str, *, quick: bool) -> Figure:
    os.makedirs(folder)
    delays = asyncio.run(_delays(folder, 5 if quick else 50))
    return Figure(
        name="chat",
        what="`holdfast chat` shows what an agent says",
        against="after the agent was allowed to speak",
        spread=spread([delay * 1e3 for delay in delays]),
        unit="ms",
        target=Target("≤", 100),
        note=f"the slowest of {len(delays)}: {number(max(delays) * 1e3)} ms",
    )


async def _delays(folder: str, words: int) -> list[float]:
    repo, script = os.path.join(folder, "repo"), os.path.join(folder, "agent.yaml")
    gate = os.path.join(folder, "gate-{{prompt}}")
    steps = [{"wait_for": {"path": gate}}, {"say": "word-{{prompt}} "}, {"wait_for": {"path": f"{gate}-end"}}]
    with open(script, "w", encoding="utf-8") as file:
        json.dump({"otherwise": steps}, file)
    _make_repository(repo)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "HOLDFAST_HOME": os.path.join(folder, "home"), "TERM": "xterm", "NO_COLOR": "1"}
    environment |= {"HOLDFAST_PLAYBOOK_STATE": os.path.join(folder, "memory")}
    holdfast = (sys.executable, "-m", "holdfast")
    begin = ("chat", "--agent", f"playbook:{script}", "--set", f"chat.idle={_IDLE_S}", "-m", "0")
    terminal = await asyncio.create_subprocess_exec(
        *holdfast, *begin, cwd=repo, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    screen, delays = _Screen(ours), list[float]()
    try:
        for word in range(words + 1):
            if word:
                os.write(ours, f"{word}\r".encode())
            await asyncio.to_thread(screen.until, "working")
            seen = asyncio.create_task(asyncio.to_thread(screen.until, f"word-{word}"))
            await asyncio.sleep(0.2)  # the agent waits for its file by then
            began = time.perf_counter()
            _create(os.path.join(folder, f"gate-{word}"))
            delays.append(await seen - began)
            _create(os.path.join(folder, f"gate-{word}-end"))
            await asyncio.to_thread(screen.until, "waiting for you")
    finally:
        terminal.terminate()
        await terminal.wait()
        os.close(ours)
        subprocess.run([*holdfast, "stop", "--all"], cwd=repo, env=environment, check=False, capture_output=True)
    return delays[1:]  # the first includes the start of the runner and the agent


class _Screen:
    """What a terminal was sent and nobody has looked for yet."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._text = ""

    def until(self, text: str) -> float:
        """Return when the terminal has shown this text."""
        while text not in self._text:
            self._text += os.read(self._fd, 65536).decode(errors="replace")
        self._text = self._text[self._text.index(text) + len(text) :]
        return time.perf_counter()


def _make_repository(path: str) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", path, *arguments], check=True, capture_output=True)

    os.makedirs(path)
    git("init", "--quiet", "--initial-branch=main")
    git(
        "-c",
        "user.name=Bench",
        "-c",
        "user.email=bench@example.org",
        "commit",
        "--quiet",
        "--allow-empty",
        "-m",
        "Begin",
    )


def _create(path: str) -> None:
    with open(path, "x", encoding="utf-8"):
        pass
