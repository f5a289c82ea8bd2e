"""Conversations, whatever the dialect: messages and tools in, events of an answer out."""
