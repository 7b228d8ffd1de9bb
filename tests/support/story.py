"""A story: one seed, one repository, and a random sequence of what agents, the user, Holdfast and crashes do to it."""

import os
import random
from collections.abc import Awaitable, Callable, Container

from holdfast.core.work.names import worktree_names
from holdfast.engine.home import Home
from holdfast.engine.workspace.workspace import NewRun, create_run
from holdfast.leaf.errors import HoldfastError
from tests.support.story_crash import Crash, act_and_crash, any_crash
from tests.support.story_people import Agent, User
from tests.support.story_steps import Step, take
from tests.support.story_world import Found, World

TASKS = ("T-1", "T 2/ü", "main")
_MENU = {
    "open": 4,
    "snapshot": 4,
    "restore": 2,
    "commit": 5,
    "keep failed": 2,
    "unwind failed": 2,
    "merge": 5,
    "remove": 2.5,
    "reconcile": 2.5,
    "doctor": 1.5,
    "merge run": 1,
    "push": 1,
    "settle": 0.5,
    "archive": 1,
    "reset": 1,
}
_ENDS = ("archive", "reset")
_MOST_CRASHES = 3  # one after the other, before recovery is let through


class Story:
    def __init__(self, folder: str, seed: int) -> None:
        self.dice = random.Random(seed)
        self.world = World(folder)
        self.agent = Agent(self.world, self.dice)
        self.user = User(self.world, self.dice)
        self.told: list[str] = [f"story {seed}"]
        self.seen = Found({}, frozenset())
        self.own: dict[str, object] = {}
        self.opened: list[str] = []
        self.taken: dict[str | None, frozenset[bytes]] = {}  # by task: what a snapshot last saw in its worktree
        self.rewritten: set[str] = set()  # effects whose commits the user made anew
        self.snapshots = 0

    async def play(self, length: int) -> None:
        try:
            for number in range(length):
                await self.go_on()
                if number % 10 == 9:
                    self.world.must_be_sound()
            await self.recover()
            self.world.must_be_sound()
        except BaseException as error:
            error.add_note("\n".join(self.told))
            raise

    async def go_on(self) -> None:
        if not self.world.run_id:
            await self.begin_run()
        elif self.dice.random() < 0.45:
            await self.work()
        elif self.dice.random() < 0.75:
            await self.step(self.next_step())
        else:
            await self.interfere()

    # the parts that people play

    async def work(self) -> None:
        there = self.world.worktrees()
        if not there:
            return
        folder = self.dice.choice(there[1:] or there) if self.dice.random() < 0.85 else there[0]
        act = self.agent.work if self.dice.random() < 0.75 else self.agent.turn
        self.tell(f"agent in {os.path.basename(folder)}: {act(folder)}")
        self.look()

    async def interfere(self) -> None:
        if self.dice.random() < 0.15:
            move = self.dice.choice((self.user.move_repository, self.user.move_home))
            move()
            self.tell(f"user: {move.__name__}")
            self.look()
            await self.step(Step("doctor"))
            await self.calmly(Step("doctor"))
            return
        harmless = self.dice.random() < 0.6
        act = self.dice.choice(self.user.harmless if harmless else self.user.harmful)
        if act in (self.user.amend_runs_branch, self.user.rebase_runs_branch):
            self.rewritten.update(commit.effect for commit in self.world.made_by_us())
        act()
        self.tell(f"user: {act.__name__}")
        before = self.seen
        self.look()
        if harmless:
            self.must_be_found(before.all)

    # Holdfast's part

    async def begin_run(self) -> None:
        self.world.run_id = await create_run(Home(self.world.home), NewRun("a story", self.world.repo))
        self.opened, self.taken = [], {}
        self.tell(f"run {self.world.run_id}")
        self.look()
        for task in self.dice.sample(TASKS, self.dice.randrange(1, 3)):
            await self.step(Step("open", task))

    def next_step(self) -> Step:
        kind = self.dice.choices(list(_MENU), list(_MENU.values()))[0]
        if kind == "open" or (not self.opened and kind not in ("archive", "reset")):
            return Step("open", self.dice.choice(TASKS))
        there = [task for task in self.opened if self.folder_of(task) in self.seen.files]
        task = self.dice.choice(there if there and self.dice.random() < 0.9 else self.opened) if self.opened else None
        anywhere = None if self.dice.random() < 0.15 else task
        match kind:
            case "snapshot":
                self.snapshots += 1
                return Step(kind, anywhere, f"turn {self.snapshots}")
            case "restore":
                prefix = f"{worktree_names(self.world.run_id, anywhere).snapshot_refs}/"
                taken = self.world.git(self.world.repo, "for-each-ref", "--format=%(objectname)", prefix).split()
                return Step(kind, anywhere, self.dice.choice(taken)) if taken else Step("settle")
            case "commit" | "keep failed":
                return Step(kind, anywhere if kind == "commit" else task, "work done")
            case "remove":
                return Step(kind, anywhere)
            case "unwind failed" | "merge":
                return Step(kind, task)
            case "merge run":
                return Step(kind, about=self.dice.choice(("release", "main")))
        return Step(kind)

    async def step(self, step: Step) -> None:
        if self.dice.random() < 0.4:
            await self.crash_in(step)
        else:
            await self.calmly(step)

    async def calmly(self, step: Step) -> None:
        await self.watched(step, self.taking(step))

    def taking(self, step: Step) -> Callable[[], Awaitable[str]]:
        async def act() -> str:
            try:
                return f"done {await take(self.world.scene, step)}"
            except HoldfastError as error:
                return f"refused {type(error).__name__}: {error}"

        return act

    async def crash_in(self, step: Step) -> None:
        said = await self.crash_once(step)
        crashes = 1
        while said == "killed" and crashes < _MOST_CRASHES and self.dice.random() < 0.3:
            said = await self.crash_once(Step("settle"))
            crashes += 1
        if said == "killed":
            await self.recover()

    async def crash_once(self, step: Step) -> str:
        crash = any_crash(self.dice)

        async def act() -> str:
            said = act_and_crash(self.world.scene, step, crash, os.path.join(self.world.folder, "trap"))
            return said or "killed"

        return await self.watched(step, act, crash)

    async def recover(self) -> None:
        """What a crash left is settled by whoever opens the run next; git's own locks by then have no owner."""
        if self.world.run_id:
            said = await self.watched(Step("settle"), self.taking(Step("settle")))
            assert said.startswith("done") or "is not at" in said, said  # moved, and not yet found by the doctor

    async def watched(self, step: Step, act: Callable[[], Awaitable[str]], crash: Crash | None = None) -> str:
        """Take a step, and see that it took nothing away."""
        ends = step.kind in _ENDS
        must = self.at_the_end() if ends else self.seen.all
        said = await act()
        self.tell(f"holdfast: {step}{f' {crash}' if crash else ''}: {said}")
        assert not said.startswith("defect"), said
        gone = not os.path.exists(self.world.run_folder)
        own, stood = self.own, self.seen.files
        self.look()
        self.must_be_found(must)
        self.must_be_untouched(own, but=f"refs/heads/{step.about}" if step.kind == "merge run" else "")
        if said.startswith("done"):
            await self.world.must_be_in_order()
            self.once_each()
            opened = step.kind != "doctor"  # it may have found no reason to open the run
            assert crash is not None or not opened or not self.world.locks(), self.world.locks()
        self.remember(step, said, stood)
        if gone or (step.kind in _ENDS and said.startswith("done")):
            self.world.run_id = ""
        return said

    def remember(self, step: Step, said: str, stood: Container[str]) -> None:
        """A commit is newer than any snapshot; so is what is saved of a worktree that is taken away."""
        if step.kind in ("commit", "keep failed") and not said.startswith("refused"):
            self.taken.pop(step.task, None)
        for task in list(self.taken):
            if self.folder_of(task) in stood and self.folder_of(task) not in self.seen.files:
                del self.taken[task]
        if not said.startswith("done"):
            return
        if step.kind == "open" and step.task is not None and step.task not in self.opened:
            self.opened.append(step.task)
        if step.kind in ("snapshot", "restore"):
            self.taken[step.task] = self.seen.files.get(self.folder_of(step.task), frozenset())

    def folder_of(self, task: str | None) -> str:
        return os.path.join(self.world.run_folder, worktree_names(self.world.run_id, task).folder)

    def at_the_end(self) -> frozenset[bytes]:
        """What must outlive a run: all but what only older snapshots have, of worktrees that are there."""
        found = self.world.found(snapshots=False)
        lost = (tokens for task, tokens in self.taken.items() if self.folder_of(task) not in found.files)
        return found.all | (frozenset().union(*lost) & self.seen.all)

    # looking

    def tell(self, line: str) -> None:
        self.told.append(line)

    def look(self) -> None:
        self.seen = self.world.found()
        self.own = self.world.users_own()

    def must_be_found(self, tokens: frozenset[bytes]) -> None:
        lost = tokens - self.seen.all
        assert not lost, f"lost: {sorted(lost)}"

    def must_be_untouched(self, own: dict[str, object], *, but: str = "") -> None:
        """The user's checkout and refs: only they themselves change them, or ask for it."""
        changed = {name for name in {*own, *self.own} if own.get(name) != self.own.get(name)} - {but}
        assert not changed, f"the user's own was changed: {changed}"

    def once_each(self) -> None:
        made = [commit for commit in self.world.made_by_us() if commit.effect not in self.rewritten]
        for once in ([commit.effect for commit in made], [commit.merged for commit in made if commit.merged]):
            assert len(once) == len(set(once)), f"done twice: {sorted(once)}"
