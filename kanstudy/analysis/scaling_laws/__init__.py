"""Laws of scaling curves and all-reduce times: Amdahl, Gustafson, USL and α-β, fitted or refused with the reason."""
