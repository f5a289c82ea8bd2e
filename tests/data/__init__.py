"""Reference values for tests."""
