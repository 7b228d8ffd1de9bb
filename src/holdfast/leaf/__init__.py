"""What every room may use: errors, ids, the clock, who a process is. Imports nothing of ours."""
