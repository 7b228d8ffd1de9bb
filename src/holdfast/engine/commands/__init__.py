"""The public API, part two: functions that change something. Each takes a `Home`; none starts an event loop.

The functions of `selftest` and `demo.log` are the exception: they block.
"""
