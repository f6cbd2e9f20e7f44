"""Tables: how each is laid out, shown, and saved for a paper."""
