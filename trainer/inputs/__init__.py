"""Input: calls an input_fn, checks what comes back, and cuts it into steps."""
