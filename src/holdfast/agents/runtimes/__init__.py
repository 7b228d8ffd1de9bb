"""The runtimes of agents: a local process, a sandbox, a container, a tmux window."""
