"""A chat at the terminal, and for programs: clients that look and type. The runner does the work."""
