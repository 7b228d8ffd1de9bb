"""Everything that survives a crash: journal, inbox, ownership, snapshots, the catalog."""
