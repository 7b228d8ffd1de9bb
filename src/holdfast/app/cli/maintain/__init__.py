"""Commands that remove, recover and repair: archive, reset, salvage, doctor, selftest."""
