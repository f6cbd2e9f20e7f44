"""Nodes that are not there: ranks in network namespaces of this machine, over a link of stated rate and latency."""
