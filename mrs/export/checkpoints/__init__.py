"""Readers of checkpoint files: a config and lazily read tensors under GGUF names."""
