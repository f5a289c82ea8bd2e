"""Sessions, KV cache, scheduler, engine, sampling, detokenizing. Knows no HTTP."""
