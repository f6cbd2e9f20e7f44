"""A network as a cost model: its links, how ranks lie on nodes, and what collectives cost on it."""
