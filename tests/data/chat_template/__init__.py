"""Reference renderings, made by transformers."""
