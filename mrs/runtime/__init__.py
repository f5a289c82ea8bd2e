"""Sessions, KV cache, scheduler, engine, sampling, detokenizing. Knows no HTTP."""

import logging

# Where no log is set up, Python would write its errors, stack traces included, to stderr.
logging.getLogger(__name__).addHandler(logging.NullHandler())
