"""Places runs on the machines of a cluster by Temporal: submit a run, serve as a worker, drain one."""
