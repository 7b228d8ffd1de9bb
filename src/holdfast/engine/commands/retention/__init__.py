"""Shrinks finished runs step by step, and keeps the proof of what they did."""
