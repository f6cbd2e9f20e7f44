"""What runs on every rank: the arms, their timing, the instrumented pass and the records."""
