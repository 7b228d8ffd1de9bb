"""What must hold of a run when it is done, whoever was killed on the way: DESIGN's list, and the undisturbed end."""

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from holdfast.core.events import Event
from holdfast.core.events.checkpoint import Checkpoint
from holdfast.core.events.conversation import TurnEnded, TurnInterrupted, TurnStarted
from holdfast.core.events.effect import EffectDidNotHappen, EffectHappened, EffectIntended
from holdfast.core.events.inbox import InboxConsumed, InboxHandled
from holdfast.core.events.phase import ResearchAnswered
from holdfast.core.events.rewind import RunForked
from holdfast.core.state import RunState
from holdfast.core.work.names import SALVAGE_REFS, SNAPSHOT_REFS, worktree_names
from holdfast.engine.home import Home
from holdfast.engine.queries.verify import verify_run
from holdfast.git.effects import CaptureTree, DropRefs, TakeSnapshot
from holdfast.store.files.store import FileStore
from holdfast.store.fold import fold_log
from tests.support.crash_suite.leftover_processes import strays_of
from tests.support.crash_suite.repository_state import Branches, Commit
from tests.support.crash_suite.trial_place import Place
from tests.support.events import events_in
from tests.support.logs import fold_of, live_part, whole
from tests.support.repositories import half_deleted

_SAVED = re.compile(rf"(?:{SALVAGE_REFS}|{SNAPSHOT_REFS})[^\s'\",;]+")
_KEPT = re.compile(rf"is kept as ({_SAVED.pattern})")
_CHANCE = re.compile(r"[0-9a-f]{16}|turn-\d+(?:-[0-9a-f]{12}){0,2}")


def _named_in(ref: str, log: str) -> bool:
    """Itself, by the effect that saved it, or as what it was taken."""
    leaf = ref.rpartition("/")[2]
    return ref in log or f'"{leaf}"' in log or f'"{leaf.partition("-")[0]}"' in log


def saved_by(run_id: str, events: Iterable[Event]) -> dict[str, str | None]:
    """The refs that effects tell of in their outcomes, each with its commit where it is told."""
    intended: dict[str, EffectIntended] = {}
    found: dict[str, str | None] = {}
    for event in events:
        match event:
            case EffectIntended():
                intended[event.effect] = event
            case EffectDidNotHappen():
                found |= dict.fromkeys(_KEPT.findall(event.reason or ""))  # it may name what it failed to save, too
            case EffectHappened():
                found |= dict.fromkeys(_SAVED.findall(str(event.result)))
                arguments = intended[event.effect].arguments
                if intended[event.effect].kind in (TakeSnapshot.kind, CaptureTree.kind):
                    place = worktree_names(run_id, arguments["task"])
                    found[f"{place.snapshot_refs}/{arguments['name']}"] = event.result["commit"]
                if intended[event.effect].kind == DropRefs.kind:
                    found = {ref: oid for ref, oid in found.items() if not ref.startswith(arguments["prefix"])}
    return found


def _tasks_by(commit: Commit, whose: Mapping[str, str]) -> list[str]:
    return [whose[effect] for effect in commit.effects if effect in whose]


def different(end: Mapping[str, Any], expected: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What is not as it should be: as it is, and as it should."""
    return {what: (found, expected[what]) for what, found in end.items() if found != expected[what]}


def attempts_in(end: Mapping[str, Any]) -> dict[str, int]:
    """Of each task; that it was to resolve what another one had merged before it is none."""
    return {name: iteration - end["evaluations"][name][1] for name, (_, _, iteration) in end["tasks"].items()}


class Work(NamedTuple):
    """What is of a task on the run's branch: the subjects of its commits, and the files that its merges changed."""

    subjects: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    def __or__(self, other: object) -> "Work":
        assert isinstance(other, Work)
        return Work(self.subjects | other.subjects, self.files | other.files)


def but_for(end: Mapping[str, Any], tasks: Collection[str | None], work: Work) -> dict[str, Any]:
    """The same end, without what is of these tasks; what they came to, and in how many iterations, stays."""

    def others(of: Mapping[str, Any]) -> dict[str, Any]:
        return {name: found for name, found in of.items() if name not in tasks}

    histories, files = others(end["history"]), others(end["files"])
    return {
        **end,
        "evaluations": others(end["evaluations"]),
        "verdicts": others(end["verdicts"]),
        "history": {name: [one for one in found if one not in work.subjects] for name, found in histories.items()},
        "files": {
            branch: {name: content for name, content in found.items() if name not in work.files}
            for branch, found in files.items()
        },
    }


class Done:
    """A run that came to its end, looked at from all sides."""

    def __init__(self, place: Place, data: bytes, state: RunState) -> None:
        self.place = place
        self.data = data
        self.state = state
        self.events = list(events_in(data))
        self.live_events = list(events_in(live_part(data)))  # without what a rewind abandoned
        self.branches = Branches(place)

    @classmethod
    async def look(cls, place: Place) -> "Done":
        store = FileStore(place.home)
        data = await whole(store, place.run_id)
        fold = fold_of(data)
        done = cls(place, data, fold.state)
        assert (await fold_log(store.log(place.run_id), await store.snapshot(place.run_id))).fold.state == fold.state
        assert (await verify_run(Home(place.home), place.run_id)).is_intact
        return done

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    # What there is at the end, but for what chance decides

    def end(self) -> dict[str, Any]:
        return {
            "tasks": {name: (task.status, task.error, task.iteration) for name, task in self.state.tasks.items()},
            "evaluations": {name: (task.evaluations, task.conflicted) for name, task in self.state.tasks.items()},
            "verdicts": {name: [v.accept for v in task.verdicts] for name, task in self.state.tasks.items()},
            "phases": {name: (phase.status, phase.outcome, phase.round) for name, phase in self.state.phases.items()},
            "history": self.branches.subjects(self.branches.own),
            "files": self.branches.files,
            "refs": self._refs(),
            "worktrees": self._worktrees(),
            "user's": self._users(),
        }

    def tasks_of(self, conversations: Iterable[str]) -> set[str | None]:
        """Whose agents they were with."""
        return {self.state.conversations[name].task for name in conversations}

    def work(self) -> dict[str, Work]:
        """Of each task."""
        whose = {event.effect: event.task for event in self.of(EffectIntended) if event.task is not None}
        found = defaultdict[str, Work](Work)
        for commit in self.branches.on(self._main).values():
            for task in _tasks_by(commit, whose):
                found[task] |= Work(subjects=frozenset([commit.subject]))
        for merge, names in self.branches.changed_by_merges_into(self._main):
            for task in _tasks_by(merge, whose):
                found[task] |= Work(files=frozenset(names))
        return dict(found)

    @property
    def _main(self) -> str:
        return self.branches.own["main"]

    def _users(self) -> tuple[str, dict[str, list[str]]]:
        """Their checkout, and what is on their branches."""
        status = self.place.git("status", "--porcelain", "--branch", "--ignored")
        return status, self.branches.subjects(self.branches.users)

    def _refs(self) -> list[str]:
        refs, saved, log = self.branches.refs, self.branches.saved, self.data.decode()
        assert not [name for name in saved if not _named_in(name, log)], "refs of which the log does not tell"
        return sorted({_CHANCE.sub("…", name.replace(self.place.run_id, "RUN")) for name in {*refs} - {*saved}})

    def _worktrees(self) -> list[str]:
        listed = self.place.git("worktree", "list", "--porcelain").strip().split("\n\n")
        paths = {one.splitlines()[0].partition(" ")[2]: one for one in listed}
        ours = [path for path in paths if path == self.place.repo or self.place.run_id in path]
        assert self.place.is_shared or len(ours) == len(paths), paths
        for path in ours:  # those of others may be at work
            assert not re.search(r"^(prunable|locked|detached)", paths[path], re.MULTILINE), paths[path]
        named = (path.replace(self.place.home, "HOME").replace(self.place.repo, "REPO") for path in ours)
        return sorted(path.replace(self.place.run_id, "RUN") for path in named)

    # The invariants

    def begun_late(self) -> set[str]:
        """Tasks whose worktrees were made when others were merged already that they do not wait for."""
        goal = self.place.scenario.goal
        needs = {task["id"]: set(task.get("depends_on", ())) for task in goal if isinstance(task, dict)}
        about = {event.effect: (event.kind, event.task) for event in self.of(EffectIntended)}
        happened = [about[event.effect] for event in self.of(EffectHappened)]
        merged, begun = set[str](), dict[str, bool]()
        for kind, task in happened:
            if kind == "merge":
                merged.add(task)
            elif kind == "worktree.make" and task is not None:
                begun.setdefault(task, bool(merged - needs.get(task, set())))
        return {task for task, late in begun.items() if late}

    def must_hold(self) -> None:
        self.must_be_sound()
        assert self.branches.files["main"] == dict(self.place.scenario.files)

    def must_be_sound(self) -> None:
        """Whatever the agents made of their tasks."""
        self.must_be_alone()
        self.must_have_ended_every_turn_once()
        self.must_have_done_every_effect_once()
        self.must_have_what_it_saved()
        self.must_have_consumed_every_message_once()
        self.must_have_valid_checkpoints()

    def must_be_alone(self) -> None:
        left = strays_of(self.place.home, self.place.run_id)
        assert not left, f"a process is left: {left}"
        assert half_deleted(os.path.join(self.place.home, "runs", self.place.run_id)) == []

    def must_have_ended_every_turn_once(self) -> None:
        begun = Counter(event.turn for event in self.of(TurnStarted))
        ended = Counter(event.turn for event in (*self.of(TurnEnded), *self.of(TurnInterrupted)))
        assert begun == ended
        assert set(begun.values()) <= {1}

    def must_have_done_every_effect_once(self) -> None:
        assert self.state.effects == {}, f"an effect is left open: {self.state.effects}"
        kinds = {event.effect: (event.kind, event.task) for event in self.of(EffectIntended)}
        live = (event.effect for event in self.live_events if isinstance(event, EffectHappened))
        happened = Counter(kinds[effect] for effect in live)
        merged = {task: count for (kind, task), count in happened.items() if kind == "merge"}
        accepted = max(1, sum(line[0] == "accept" for line in self.place.scenario.chat))
        assert set(merged.values()) <= {*range(1, accepted + 1)}, f"merged more than once: {merged}"
        subjects = Counter(commit.subject for commit in self.branches.merges_into(self._main))
        assert set(subjects.values()) <= {*range(1, accepted + 1)}, f"merged twice: {subjects}"
        for branch, tip in self.branches.own.items():
            effects = Counter(effect for commit in self.branches.on(tip).values() for effect in commit.effects)
            assert set(effects.values()) <= {1}, f"a commit twice on {branch}: {effects}"

    def must_have_what_it_saved(self) -> None:
        """What the log tells of as saved, and not as dropped later, can be found; a snapshot as what was taken."""
        told = saved_by(self.place.run_id, self.events)
        found = {ref: self.branches.saved.get(ref) for ref in told}
        missing = {ref: oid for ref, oid in told.items() if found[ref] is None or oid not in (None, found[ref])}
        assert not missing, f"saved, and not there: {missing}"

    def must_have_consumed_every_message_once(self) -> None:
        with open(os.path.join(self.place.home, "runs", self.place.run_id, "inbox.jsonl"), "rb") as file:
            messages = {json.loads(line)["data"]["id"] for line in file if line != b"\n"}  # one may be sent twice
        forked = max((number for number, event in enumerate(self.events) if isinstance(event, RunForked)), default=0)
        own = self.events[forked:]  # a fork has the past of its parent, and an inbox of its own
        consumed = Counter(event.message for event in own if isinstance(event, InboxConsumed))
        handled = Counter(event.message for event in own if isinstance(event, InboxHandled))
        assert consumed.keys() == messages, "a message was lost"
        answers = Counter(event.research for event in self.of(ResearchAnswered))  # these the run tells itself
        assert consumed + answers == handled
        assert set(handled.values()) <= {1}, "a message was consumed twice"
        told = Counter(words for turn in self.of(TurnStarted) for words in turn.messages)
        assert set(told.values()) <= {1}, "an agent was told twice"

    def must_have_valid_checkpoints(self) -> None:
        named = {event.commit for event in self.live_events if isinstance(event, Checkpoint)} - {None}
        assert named <= {*self.branches.on(self._main)}, "a checkpoint names what is not on the run's branch"
