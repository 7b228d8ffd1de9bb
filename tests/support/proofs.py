"""Results of the long proofs of clusters, for docs/recovery.md: scripts/recovery.py keeps the newest of each."""

import json
from pathlib import Path

_FILE = Path(__file__).parents[2] / ".torture" / "cluster.jsonl"


def record(what: str, **numbers: float) -> None:
    """Note a proof that was held to its end. One that is held in parts gives each a `part`."""
    _FILE.parent.mkdir(exist_ok=True)
    with _FILE.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"what": what, **numbers}) + "\n")
