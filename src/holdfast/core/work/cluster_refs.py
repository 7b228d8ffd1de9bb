"""The names under which a cluster run's refs stand on its remote: `refs/holdfast/cluster/<run>/<epoch>/<name>`.

Every owner of the run has an epoch, and so a folder of refs of its own there. `owner` in it changes with every push: an
earlier owner that still pushes finds it moved or gone, and its whole push is refused.
"""

from holdfast.core.work.names import BRANCH_PREFIX, SALVAGE_REFS, SNAPSHOT_REFS, chain_ref

CLUSTER_REFS = "refs/holdfast/cluster/"
INCOMING_REFS = "refs/holdfast/incoming/"  # in a mirror, while a run is taken over
OWNER = "owner"

_CHAIN = "chain"
_EPOCH_DIGITS = 18


def cluster_prefix(run_id: str) -> str:
    """The prefix of all refs of a run on its remote."""
    return f"{CLUSTER_REFS}{run_id}/"


def epoch_prefix(run_id: str, epoch: int) -> str:
    """The prefix of the refs that the owner with this epoch writes."""
    return f"{cluster_prefix(run_id)}{epoch}/"


def epoch_of(run_id: str, ref: str) -> int | None:
    """The epoch of a ref on the remote; None for any other ref."""
    text, slash, _ = ref.removeprefix(cluster_prefix(run_id)).partition("/")
    is_epoch = ref.startswith(cluster_prefix(run_id)) and slash and text.isdecimal() and len(text) <= _EPOCH_DIGITS
    return int(text) if is_epoch else None


def shared_name(run_id: str, ref: str) -> str | None:
    """The name on the remote of a run's ref in a repository; None for a ref that stays there."""
    if ref == chain_ref(run_id):
        return _CHAIN
    for kind, prefix in _folders(run_id).items():
        if ref.startswith(prefix):
            return f"{kind}/{ref.removeprefix(prefix)}"
    return None


def local_ref(run_id: str, name: str) -> str | None:
    """The ref in a repository for a name on the remote; None for a name that has none, such as `owner`."""
    if name == _CHAIN:
        return chain_ref(run_id)
    kind, _, rest = name.partition("/")
    prefix = _folders(run_id).get(kind)
    return f"{prefix}{rest}" if prefix is not None and rest else None


def _folders(run_id: str) -> dict[str, str]:
    return {
        "heads": f"refs/heads/{BRANCH_PREFIX}{run_id}/",
        "snapshot": f"{SNAPSHOT_REFS}{run_id}/",
        "salvage": f"{SALVAGE_REFS}{run_id}/",
    }
