"""Any checkpoint vocabulary -> tokenizer.json."""
