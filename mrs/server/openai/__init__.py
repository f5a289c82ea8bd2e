"""The OpenAI dialect: chat completions and models."""
