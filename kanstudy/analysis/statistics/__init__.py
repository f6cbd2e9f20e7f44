"""From timed blocks to estimates with intervals: rounds, launches, ratios of arms, simultaneous bounds."""
