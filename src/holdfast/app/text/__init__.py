"""Events, runs and digests as text, for the command line, the dashboard and the HTML export."""
