"""The pure core: events, their fold, the plan graph, the analysis of an interruption, the decision.

No I/O, no clock, no randomness. Everything here is a function of its arguments, so every decision
Holdfast makes after a crash can be a row in a table of tests.
"""
