"""``GET /metrics``: what Prometheus wants to know, under the names of mistral.rs and vLLM."""
