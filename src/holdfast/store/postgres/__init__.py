"""The Postgres backend: one database for the runs of many machines."""
