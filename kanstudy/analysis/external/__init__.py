"""Scaling tables and nccl-tests logs that this project did not measure: `kanstudy analyse`."""
