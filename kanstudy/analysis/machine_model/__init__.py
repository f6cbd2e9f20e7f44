"""A machine as a cost model: what a training step costs on it, whether fitted, stated by a vendor or invented."""
