"""Files of cluster runs: mirrors of their remotes on each machine, and their refs on the remote."""
