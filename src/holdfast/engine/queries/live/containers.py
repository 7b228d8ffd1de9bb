"""The containers that still run for a run."""

from holdfast.engine.containers import OrphanContainer, running_containers

__all__ = ["OrphanContainer", "running_containers"]
