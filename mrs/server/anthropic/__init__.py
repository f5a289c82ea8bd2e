"""The Anthropic dialect: messages, and the count of their tokens."""
