"""Drives any OpenAI-compatible server and measures what its clients feel."""
