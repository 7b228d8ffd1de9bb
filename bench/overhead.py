"""What Holdfast adds to an agent and to git: CPU of whole process trees, against plain scripts, and memory.

The scripts do the same work with the same agents and survive nothing. They are as short as they can be, so they are
what an orchestrator costs at least.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

from bench.figure import Figure, Spread, Target, number, spread
from bench.places import ROOT, scratch
from bench.process_tree import descendants, own_memory, tree_cpu
from bench.working import instant_script, new_repository

_HOLDFAST = (sys.executable, "-m", "holdfast")
_PYTHON = (sys.executable, "-c", "pass")
_WORK = {"run": {"command": "echo {{cwd}} >> work.txt; basename {{cwd}} | xargs touch", "shown": False}}
_CASE = {"summary": "done", "criteria": [{"criterion": "works", "met": True, "evidence": "I looked"}]}
_REPORTING = {
    "turns": [
        {
            "when": "You are the evaluator",
            "steps": [{"mcp": {"tool": "submit_verdict", "arguments": {"accept": True}}}, {"say": "Accepted."}],
        }
    ],
    "otherwise": [_WORK, {"mcp": {"tool": "submit_case", "arguments": _CASE}}, {"say": "Done."}],
}
_WAITING = {"otherwise": [{"mcp_tools": {}}, {"tool": {"title": "ready", "status": "completed"}}, {"sleep": 600}]}
_MCP_REQUESTS = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
)


def measure(*, quick: bool) -> list[Figure]:
    with scratch() as folder:
        return [
            _solo(folder, 2 if quick else 7),
            _loop(folder, 2 if quick else 10, 1 if quick else 3),
            *_tools(folder, 3 if quick else 15),
            _resume(folder, 2 if quick else 7),
            _crowd(folder, 4 if quick else 20),
        ]


def _solo(folder: str, rounds: int) -> Figure:
    script, repo = instant_script(folder), new_repository(folder, "solo", with_identity=True)
    agent = (*_HOLDFAST, "agent", "playbook", script)
    ours, plain = list[float](), list[float]()
    for _ in range(rounds):
        plain.append(_scripted(folder, "plain_client.py", repo, 1, agent))
        run = (*_HOLDFAST, "run", "Add a file", "--repo", repo, "--agent", f"playbook:{script}", "--quiet")
        ours.append(tree_cpu(run, folder, _environment(folder)))
    return Figure(
        name="solo",
        what="a solo run with an agent that is done at once: CPU of all processes",
        against="a plain `json` client of the same agent, and 7 git commands",
        spread=_ratios(ours, plain),
        target=Target("≤", 3.5),
        note=_against(ours, plain),
    )


def _loop(folder: str, tasks: int, rounds: int) -> Figure:
    repo, script, log = new_repository(folder, "loop", with_identity=True), f"{folder}/reporting.yaml", f"{folder}/own"
    tasks_file = os.path.join(folder, "tasks.json")
    _write(script, json.dumps(_REPORTING))
    listed = [{"id": f"T-{n}", "title": f"Task {n}", "acceptance_criteria": ["works"]} for n in range(1, tasks + 1)]
    _write(tasks_file, json.dumps(listed))
    agent = (sys.executable, os.path.join(ROOT, "bench", "measured_agent.py"), script, log)
    chosen = f"agents.measured.command={json.dumps(agent)}"
    run = (*_HOLDFAST, "run", tasks_file, "--workflow", "loop", "--repo", repo, "--set", chosen, "--agent", "measured")
    ours, plain = list[float](), list[float]()
    for _ in range(rounds):
        plain.append(_scripted(folder, "plain_loop.py", repo, tasks, agent) - _agents_own(log, 2 * tasks))
        ours.append(tree_cpu((*run, "--quiet"), folder, _environment(folder)) - _agents_own(log, 2 * tasks))
    return Figure(
        name="loop",
        what=f"`loop` of {tasks} tasks, with reports by MCP: CPU without the agents' own",
        against="a plain script with a plain MCP server and 7 git commands a task",
        spread=_ratios(ours, plain),
        target=Target("≤", 3),
        note=_against(ours, plain),
    )


def _agents_own(log: str, agents: int) -> float:
    """Return what the agents noted, and forget it."""
    with open(log, encoding="ascii") as file:
        used = [float(line) for line in file]
    os.unlink(log)
    assert len(used) == agents, f"{len(used)} agents of {agents} noted their CPU"
    return sum(used)


def _scripted(folder: str, name: str, repo: str, tasks: int, agent: tuple[str, ...]) -> float:
    command = (sys.executable, os.path.join(ROOT, "bench", name), repo, f"{folder}/trees", str(tasks), *agent)
    return tree_cpu(command, folder, _environment(folder))


def _tools(folder: str, rounds: int) -> list[Figure]:
    """An MCP server, from its start to the answer to `tools/list`."""
    repo, script = new_repository(folder, "tools"), instant_script(folder)
    run_id = _planned(folder, repo, script)
    command = [*_HOLDFAST, "mcp", "--run", run_id, "--role", "worker"]
    ours, plain, sizes = list[float](), list[float](), list[float]()
    for _ in range(rounds):
        plain.append(tree_cpu(_PYTHON, folder))
        cpu, size = _list_tools(command, _environment(folder))
        ours.append(cpu)
        sizes.append(size / 1e6)
    return [
        Figure(
            name="mcp",
            what="`holdfast mcp`, from its start to its list of tools: CPU",
            against="`python -c pass`, the same interpreter",
            spread=_ratios(ours, plain),
            target=Target("≤", 8),
            note=_against(ours, plain),
        ),
        Figure(
            name="mcp-memory",
            what="`holdfast mcp` that has listed its tools",
            against="its resident memory (`Rss`)",
            spread=spread(sizes),
            unit="MB",
            target=Target("≤", 30),
        ),
    ]


def _list_tools(command: list[str], environment: Mapping[str, str]) -> tuple[float, int]:
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"".join(json.dumps(frame).encode() + b"\n" for frame in _MCP_REQUESTS))
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1
        assert json.loads(server.stdout.readline())["result"]["tools"]
        with open(f"/proc/{server.pid}/smaps_rollup", encoding="ascii") as file:
            size = next(int(line.split()[1]) * 1024 for line in file if line.startswith("Rss:"))
        server.stdin.close()
        _, status, used = os.wait4(server.pid, 0)
        server.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime, size


def _resume(folder: str, rounds: int) -> Figure:
    """Both sides are killed when the agent has its prompt."""
    repo, fifo, script = new_repository(folder, "resumed"), f"{folder}/prompted", f"{folder}/prompted.yaml"
    os.mkfifo(fifo)
    _write(script, json.dumps({"otherwise": [{"run": {"command": f"echo > {fifo}", "shown": False}}, {"sleep": 600}]}))
    run_id = _planned(folder, repo, script)
    client = os.path.join(ROOT, "bench", "plain_prompt.py")
    agent = (sys.executable, client, folder, *_HOLDFAST, "agent", "playbook", script)
    ours, plain = list[float](), list[float]()
    for round_ in range(rounds + 1):
        resumed = tree_cpu((*_HOLDFAST, "resume", run_id, "--quiet"), folder, _environment(folder), until=fifo)
        if round_:  # the first time is a start, not a resume
            ours.append(resumed)
            client_only = tree_cpu((sys.executable, client), folder)
            plain.append(tree_cpu(agent, folder, _environment(folder), until=fifo) - client_only)
    return Figure(
        name="resume-prompt",
        what="`holdfast resume` to the first prompt, with the agent: CPU",
        against="the agent alone, from its start to that prompt",
        spread=_ratios(ours, plain),
        target=Target("≤", 3),
        note=_against(ours, plain),
    )


def _crowd(folder: str, agents: int) -> Figure:
    repo, script, tasks = new_repository(folder, "crowd"), f"{folder}/waiting.yaml", f"{folder}/crowd.json"
    _write(script, json.dumps(_WAITING))
    _write(tasks, json.dumps([{"id": f"T-{n}", "title": f"Task {n}"} for n in range(agents)]))
    options = ("--workflow", "waves", "--parallel", str(agents), "--agent", f"playbook:{script}")
    run = [*_HOLDFAST, "run", tasks, "--repo", repo, *options, "--json"]
    with subprocess.Popen(run, env=_environment(folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as runner:
        assert runner.stdout is not None
        try:
            ready = 0
            while ready < agents:
                event = json.loads(runner.stdout.readline())
                ready += event["type"] == "tool.called" and event["data"]["tool"] == "ready"
            started = descendants(runner.pid)
            servers = [pid for pid in started if "mcp" in _arguments(pid)]
            assert len(servers) == agents, f"{len(servers)} MCP servers of {agents} agents"
            of_servers, of_runner = sum(map(own_memory, servers)) / 1e6, own_memory(runner.pid) / 1e6
        finally:
            runner.send_signal(signal.SIGTERM)
            _drain(runner)
    return Figure(
        name="agents-memory",
        what=f"{agents} agents at once in one run: memory for each, without the agent's own",
        against="the runner and the MCP servers (`Pss`), divided by the agents",
        spread=spread([(of_servers + of_runner) / agents]),
        unit="MB",
        target=Target("≤", 30),
        note=f"runner {number(of_runner)} MB, MCP servers {number(of_servers)} MB",
    )


def _drain(runner: "subprocess.Popen[bytes]") -> None:
    assert runner.stdout is not None
    deadline = time.monotonic() + 120
    for _ in runner.stdout:
        if time.monotonic() > deadline:
            runner.kill()


def _arguments(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [part.decode(errors="replace") for part in file.read().split(b"\0")]
    except OSError:
        return []


def _planned(folder: str, repo: str, script: str) -> str:
    command = [*_HOLDFAST, "plan", "Add a file", "--repo", repo, "--agent", f"playbook:{script}", "--json"]
    done = subprocess.run(command, env=_environment(folder), check=True, stdout=subprocess.PIPE)
    run_id: str = json.loads(done.stdout)["run"]
    return run_id


def _ratios(ours: list[float], plain: list[float]) -> Spread:
    return spread([mine / other for mine, other in zip(ours, plain, strict=True)])


def _against(ours: list[float], plain: list[float]) -> str:
    return f"{number(spread(ours).median * 1e3)} ms against {number(spread(plain).median * 1e3)} ms"


def _environment(folder: str) -> dict[str, str]:
    return {
        **os.environ,
        "HOLDFAST_HOME": os.path.join(folder, "home"),
        "XDG_CONFIG_HOME": folder,
        "XDG_STATE_HOME": folder,
    }


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
