"""What a version's KV cache can be stored as, and what that takes."""

from __future__ import annotations

from pathlib import Path

from mrs.errors import UsageError
from mrs.model_repo.lock import UnmeasuredParity
from mrs.model_repo.version import ModelVersion
from mrs.runtime.kv_cache_shape import KVCacheShape, KVCacheType


def graph_for(version: ModelVersion, type: KVCacheType) -> Path:
    """The graph that works on such a cache.

    Raises:
        UsageError: the version has none.
    """
    if type is KVCacheType.FP32:
        return version.graph_path
    if not version.has_int8_cache:
        measured = version.lock.int8_cache
        reason = (
            measured.not_measured
            if isinstance(measured, UnmeasuredParity)
            else "an older mrs made it"
        )
        raise UsageError(
            f"{version.reference} has no scales for an 8-bit KV cache ({reason:.200}).",
            hint="Export the model again with --parity always, or leave --kv-cache-type out.",
            param="kv_cache_type",
        )
    return version.int8_cache_graph_path


def cache_shape(
    version: ModelVersion,
    slots: int,
    capacity: int,
    type: KVCacheType = KVCacheType.FP32,
    spare: int = 0,
) -> KVCacheShape:
    """The shape of a version's cache.

    Args:
        version: of the model.
        slots: sequences that run at once.
        capacity: tokens that each must hold.
        type: what keys and values are stored as.
        spare: slots beyond those, for rows of ended sequences.
    """
    facts = version.lock.model
    return KVCacheShape(
        num_layers=facts.num_layers,
        slots=slots + spare,
        num_kv_heads=facts.num_kv_heads,
        min_capacity=capacity,
        head_dim=facts.head_dim,
        windows=facts.kv_windows,
        type=type,
        spare=spare,
    )
