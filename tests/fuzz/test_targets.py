"""No reader of ours breaks on what it is given: from files of people, from logs, from agents."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.fuzz.mutation import mutated
from tests.fuzz.nearly import NEARLY
from tests.fuzz.targets import TARGETS, feed

FOUND = Path(__file__).with_name("found")  # inputs that broke something once: TARGET/NAME
ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".torture" / "fuzz"
EXAMPLES = 150
DOCUMENTS = 100  # of each target
MORE_DOCUMENTS = 2_000  # of each target, in the long suite
SECONDS, SEED = 60, 1  # of each target, in the long suite


@pytest.mark.parametrize("name", TARGETS)
def test_what_people_write_is_taken(name: str) -> None:
    for seed in TARGETS[name].seeds:
        TARGETS[name].read(seed)


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_nearly_right_is_taken_or_refused_in_words(name: str) -> None:
    dice = random.Random(name)
    for _ in range(EXAMPLES):
        data = mutated(TARGETS[name].seeds, dice)
        try:
            feed(TARGETS[name], data)
        except Exception as error:
            raise AssertionError(f"{name} breaks on {data!r}") from error


@pytest.mark.parametrize("name", TARGETS)
def test_a_document_with_a_few_wrong_values_is_taken_or_refused_in_words(name: str) -> None:
    must_stand(name, DOCUMENTS)


@pytest.mark.torture
@pytest.mark.parametrize("name", TARGETS)
def test_many_such_documents_are_taken_or_refused_in_words(name: str) -> None:
    must_stand(name, MORE_DOCUMENTS)


def must_stand(name: str, documents: int) -> None:
    @settings(max_examples=documents)
    @given(NEARLY[name])
    def each(data: bytes) -> None:
        feed(TARGETS[name], data)

    each()


@pytest.mark.parametrize("path", sorted(FOUND.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_broke_something_once_does_so_no_more(path: Path) -> None:
    feed(TARGETS[path.parent.name], path.read_bytes())


@pytest.mark.torture
@pytest.mark.parametrize("name", TARGETS)
def test_no_way_through_the_code_breaks(name: str) -> None:
    """A fuzzer that is led by coverage. What it found worth keeping is in .torture/fuzz; there it goes on."""
    pytest.importorskip("atheris", reason="NOT TESTED: fuzzing by coverage (no atheris for this Python or machine)")
    folder = KEPT / name
    command = [sys.executable, "-m", "tests.fuzz.drive", name, str(SECONDS), str(SEED), str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"its input is in {folder}:\n{done.stderr[-4000:]}"
