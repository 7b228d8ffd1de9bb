"""Exports spans and metrics by OTLP, while a run works or afterwards."""
