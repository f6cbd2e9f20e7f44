"""A calibration: a machine's constants fitted to measured records, how sure they are, and what they cover."""
