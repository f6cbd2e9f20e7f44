"""Words for networks that a profile, NCCL's log and a cost model share; standard library only."""

from __future__ import annotations

ALGORITHMS = ("ring", "tree", "halving_doubling", "hierarchical", "gloo", "nccl")
"""How collectives run over a network."""
BASES = ("assumed", "profile", "measured", "nccl-tests log")
"""Where a network's constants may come from."""
NOT_MEASURED = ("assumed", "profile")
"""Those of `BASES` that are no measurement."""
NCCL_ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
NCCL_PROTOCOLS = ("LL", "LL128", "Simple")
"""As NCCL_ALGO and NCCL_PROTO take them, in the order of NCCL's own numbers."""
GROUP_MARK = "kanstudy: all-reduces on"
"""Printed before a group's all-reduces, with its layout, so that NCCL's words on them are told from another group's."""
