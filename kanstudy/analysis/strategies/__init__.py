"""Ways to share a KAN's training among ranks, compared on one machine model. All that is given is predicted."""
