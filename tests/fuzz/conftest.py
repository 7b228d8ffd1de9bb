from tests.cli.conftest import holdfast, project, stage

__all__ = ["holdfast", "project", "stage"]
