"""Records of a machine that is not there, drawn from its machine model."""
