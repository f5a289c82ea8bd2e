"""Logits -> the next token of each sequence."""

from mrs.runtime.sampling.sampler import Sampler

__all__ = ["Sampler"]
