"""A network as a cost model: its links, how ranks lie on nodes, and what an all-reduce costs on it."""
