"""A fuzzer that looks for new ways through our code, on one target. Needs `atheris`.

    python -m tests.fuzz.drive TARGET SECONDS SEED FOLDER

In FOLDER it keeps what it found worth keeping, and goes on from there; an input that breaks something is put
there as `crash-…`, or `timeout-…`, and its exit code is not 0.
"""

import gc
import os
import sys

import atheris

with atheris.instrument_imports(include=["holdfast"]):
    from tests.fuzz.targets import TARGETS, feed

_HANGS = 10  # seconds that no input may take
_LONGEST = 4096  # bytes


def main(name: str, seconds: str, seed: str, folder: str) -> None:
    target = TARGETS[name]
    corpus = os.path.join(folder, "corpus")
    os.makedirs(corpus, exist_ok=True)
    for number, data in enumerate(target.seeds):
        with open(os.path.join(corpus, f"seed-{number}"), "wb") as file:
            file.write(data)
    options = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-timeout={_HANGS}",
        f"-max_len={_LONGEST}",
        f"-artifact_prefix={folder}/",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    atheris.Setup([sys.argv[0], *options, corpus], lambda data: feed(target, data))
    gc.freeze()  # to collect what an input left is quick then
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
