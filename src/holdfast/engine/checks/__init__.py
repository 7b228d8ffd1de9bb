"""The checks of a task, and the processes that run them."""
