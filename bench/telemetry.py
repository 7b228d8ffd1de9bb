"""What the export of traces and metrics adds to a run: CPU of its processes, with the export on against off."""

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bench.figure import Figure, Target, number, spread
from bench.places import scratch
from bench.process_tree import tree_cpu
from bench.working import instant_script, new_repository


def measure(*, quick: bool) -> list[Figure]:
    tasks, rounds = (10, 2) if quick else (60, 5)
    with scratch() as folder, _collector() as endpoint:
        repo, script = new_repository(folder, "otel", with_identity=True), instant_script(folder)
        tasks_file = os.path.join(folder, "tasks.json")
        with open(tasks_file, "w", encoding="utf-8") as file:
            json.dump(
                [{"id": f"T-{n}", "title": f"Task {n}", "acceptance_criteria": ["works"]} for n in range(tasks)], file
            )
        environment = {
            **os.environ,
            "HOLDFAST_HOME": os.path.join(folder, "home"),
            "XDG_CONFIG_HOME": folder,
            "XDG_STATE_HOME": folder,
        }
        begin = (sys.executable, "-m", "holdfast", "run", tasks_file, "--workflow", "solo")
        run = (*begin, "--repo", repo, "--agent", f"playbook:{script}", "--quiet")
        exporting = ("--set", "telemetry.enabled=true", "--set", f'telemetry.endpoint="{endpoint}"')
        on, off = list[float](), list[float]()
        for _ in range(rounds):
            off.append(tree_cpu(run, folder, environment))
            on.append(tree_cpu((*run, *exporting), folder, environment))
    return [
        Figure(
            name="telemetry",
            what=f"a run of {tasks} tasks that exports its spans and usage while it works: CPU of all processes",
            against="the same run without the export",
            spread=spread([mine / other for mine, other in zip(on, off, strict=True)]),
            target=Target("≤", 1.05),
            note=f"{number(spread(on).median * 1e3)} ms against {number(spread(off).median * 1e3)} ms",
        )
    ]


@contextmanager
def _collector() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
