"""What is pushed to clients: the board, runs, hints, jobs, terminals."""
