"""The command line: one file per command. The only part of mrs that prints."""
