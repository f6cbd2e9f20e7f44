"""The study as jobs: submitted to Slurm, looked after inside the allocation, collected; or started by hand on several
machines."""
