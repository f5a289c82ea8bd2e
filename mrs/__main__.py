"""``python -m mrs`` is ``mrs``."""

from mrs.cli.entry import main

main()
