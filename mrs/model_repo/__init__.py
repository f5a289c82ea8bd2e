"""Versions, manifests, digests and locks. Knows no model and no HTTP."""
