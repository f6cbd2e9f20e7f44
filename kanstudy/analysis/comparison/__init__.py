"""Two results side by side: what differs in how they were made, what can be compared, and how far apart it is."""
