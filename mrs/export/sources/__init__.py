"""Where a model comes from: a file, a package index."""
