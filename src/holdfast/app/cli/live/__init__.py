"""A running run in the terminal: its lines, the live area, signals, the resume question."""
