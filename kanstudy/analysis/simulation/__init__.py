"""A machine that is not there: its cost model, its noise, and records of it with their truth."""
