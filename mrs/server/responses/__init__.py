"""The Responses dialect: items in, items out, and answers that are kept.

https://platform.openai.com/docs/api-reference/responses
"""
