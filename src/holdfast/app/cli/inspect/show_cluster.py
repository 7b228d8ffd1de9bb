"""What `holdfast show` says about a cluster run: where its files come from, which worker has it, how it continues."""

from collections.abc import Iterator, Sequence

from holdfast.app.text.screen import WAITING_FOR_TIME, pluralize, printable
from holdfast.core.decide.resume import ResumeCase
from holdfast.core.end_reason import EndReason
from holdfast.core.run_status import RunStatus
from holdfast.engine.home import Home
from holdfast.engine.queries.logs import RunView
from holdfast.engine.queries.placement import SILENT_AFTER_S, WorkerRow, is_cluster_run, list_workers

_PLACED_STATUSES = (RunStatus.RUNNING, RunStatus.INTERRUPTED, EndReason.PLANNED)


async def load_workers(home: Home, view: RunView) -> Sequence[WorkerRow]:
    """Return the workers if the run has one, or waits for one."""
    return await list_workers(home) if is_cluster_run(view.state) and view.status in _PLACED_STATUSES else ()


def cluster_facts(view: RunView, workers: Sequence[WorkerRow]) -> Iterator[tuple[str, str]]:
    info = view.state.run
    assert info is not None
    yield "remote", info.remote or ""
    if info.needs:
        yield "needs", f"a worker with the label {', '.join(info.needs)}"
    for worker in workers if view.status == RunStatus.RUNNING else ():
        if view.run_id in worker.runs and worker.seen_s <= SILENT_AFTER_S:
            yield "worker", f"{worker.name} on {worker.host}"


def cluster_next_step(view: RunView, workers: Sequence[WorkerRow]) -> str | None:
    """Return the next step where it differs from that of a run of this machine."""
    run_id = view.run_id
    if view.status in (RunStatus.INTERRUPTED, EndReason.PLANNED):
        return _waiting_text(view, workers)
    if view.status in WAITING_FOR_TIME and view.status != EndReason.DAY_BUDGET:
        return f"Continues by itself on a worker. At once: holdfast resume {run_id} --now"
    if view.analysis.decision.case is ResumeCase.COMPLETE and view.status == RunStatus.DONE:
        return f"Done. Publish it with: holdfast push {run_id}, or holdfast pr {run_id}"
    return None


def no_worker_text(view: RunView, workers: Sequence[WorkerRow]) -> str | None:
    """Return what to do when no worker is there that could take the run; None when there is one."""
    label, named = _label_of(view)
    if _fitting_workers(workers, label):
        return None
    option = f" --label {printable(label)}" if label is not None else ""
    return f"Waiting for {named}; there is none. Start one with: holdfast worker{option}"


def _waiting_text(view: RunView, workers: Sequence[WorkerRow]) -> str:
    missing = no_worker_text(view, workers)
    if missing is not None:
        return missing
    label, named = _label_of(view)
    fitting = _fitting_workers(workers, label)
    free = sum(max(worker.slots - len(worker.runs), 0) for worker in fitting)
    slots = f"{pluralize(free, 'slot')} free" if free else "every slot is taken"
    return (
        f"Waiting for {named}: {pluralize(len(fitting), 'worker')} ready, {slots}. "
        f"If it was not submitted: holdfast resume {view.run_id}"
    )


def _label_of(view: RunView) -> tuple[str | None, str]:
    """Return the label that a worker must have, and words for such a worker."""
    info = view.state.run
    label = info.needs[0] if info is not None and info.needs else None
    return label, f"a worker with the label {printable(label)}" if label is not None else "a worker"


def _fitting_workers(workers: Sequence[WorkerRow], label: str | None) -> list[WorkerRow]:
    return [
        worker
        for worker in workers
        if worker.seen_s <= SILENT_AFTER_S and not worker.is_draining and (label is None or label in worker.labels)
    ]
