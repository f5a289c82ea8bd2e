"""Checkpoint -> graph -> artifact."""
