"""The files backend: one folder per run, readable with ordinary tools."""
