"""What agents run in: a process of this machine, a sandbox, a container, a terminal of its own."""
