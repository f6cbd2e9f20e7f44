"""What to run, and running it: profiles, plans, data, launches, notebooks. Never imports torch."""
