"""The public API, part one: functions that read runs, logs, agents and settings. None changes a run."""
