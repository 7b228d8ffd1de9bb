"""Files and folders: opened inside one folder, synced, deleted, read as YAML."""
