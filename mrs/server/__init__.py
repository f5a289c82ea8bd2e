"""The HTTP server: one package per API dialect, over shared errors and streaming."""
