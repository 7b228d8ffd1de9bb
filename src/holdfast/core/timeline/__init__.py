"""The picture of a run over time."""
