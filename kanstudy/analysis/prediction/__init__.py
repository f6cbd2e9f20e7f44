"""What a machine model says of sizes, machines and settings that were not measured, calibrated or assumed."""
