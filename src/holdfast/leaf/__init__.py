"""The bottom layer: errors, ids, the clock, process identity. It imports no other package of Holdfast."""
