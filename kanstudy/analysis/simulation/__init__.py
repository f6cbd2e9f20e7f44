"""Records of a machine that is not there, drawn from its cost model with their truth."""
