"""Events, runs and digests in words. Used by the command line, the dashboard and the HTML export alike."""
