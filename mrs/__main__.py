"""``python -m mrs`` is ``mrs``."""

from mrs.cli.app import main

main()
