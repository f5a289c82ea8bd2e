"""Reference values from implementations that are not ours, and how they were made."""
