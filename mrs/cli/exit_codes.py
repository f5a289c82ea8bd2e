"""Exit codes of commands that no error of the tree has."""

EXIT_INTERRUPTED = 130
"""As a shell says it of what a Ctrl-C has ended."""
