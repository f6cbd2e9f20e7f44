"""Where the parallel efficiency goes: a chain of times, its factors, what stands beside them, and the verdict."""
