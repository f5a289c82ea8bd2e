#!/bin/sh
# Ask a model a question with curl, and print the answer while it is written: chat.sh [URL]
# Needs a server (mrs serve MODEL). Each line is an event; the last one is "data: [DONE]".
curl --silent --show-error --fail-with-body --no-buffer \
    "${1:-http://127.0.0.1:1234}/v1/chat/completions" \
    --header 'Content-Type: application/json' \
    --data '{
        "model": "default",
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "max_tokens": 30,
        "temperature": 0,
        "stream": true
    }'
