"""The spline nearest to a spline on other knots.

It is the projection in least squares over the new grid's range, where every interval of the new grid has the same
weight: where intervals follow data, that weighs an error as the data do, and yet no interval goes without weight, so
that the problem is well-posed whatever the data. The integrals are exact (Gauss-Legendre between all knots, old and
new), in float64: a spline that the new grid can hold comes back to rounding.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kanstudy.model.bspline import basis_reference

_ELEMENTS_AT_ONCE = 2**22
"""Of one array of basis functions, 32 MiB: features beyond that wait for the next turn."""
_LEAST_EIGENVALUE = 1e-13
"""Of the scaled Gram matrix, relative to its largest: below it is rounding, and is left out."""


def refitted(edges: Tensor, old: Tensor, new: Tensor, spline_order: int) -> Tensor:
    """Weights (out, terms, in) for the new knots, whose last term, the base term's, stays."""
    splines = edges[:, :-1].double()
    parts = []
    points = (old.shape[1] + new.shape[1]) * (spline_order + 1)
    at_once = max(1, _ELEMENTS_AT_ONCE // (points * (old.shape[1] + new.shape[1])))
    for part in range(0, len(old), at_once):
        features = slice(part, part + at_once)
        projection = _projection(old[features].double(), new[features].double(), spline_order)
        parts.append(torch.einsum("ijk,oki->oji", projection, splines[..., features]))
    fitted = torch.cat(parts, dim=2) if parts else splines
    return torch.cat([fitted.to(edges.dtype), edges[:, -1:]], dim=1)


def _projection(old: Tensor, new: Tensor, spline_order: int) -> Tensor:
    """The matrices (in, n_new, n_old) that take coefficients on old knots to those of the nearest spline on new ones,
    in the sense of the module; float64."""
    grid = new[:, spline_order : new.shape[1] - spline_order].contiguous()
    breaks = torch.cat([grid, old.clamp(grid[:, :1], grid[:, -1:])], dim=1).sort(dim=1).values
    length, middle = breaks.diff(), (breaks[:, 1:] + breaks[:, :-1]) / 2
    nodes, shares = (torch.from_numpy(values) for values in np.polynomial.legendre.leggauss(spline_order + 1))
    points = middle[..., None] + length[..., None] / 2 * nodes
    interval = torch.searchsorted(grid, middle, right=True).clamp(1, grid.shape[1] - 1) - 1
    weights = (length / grid.diff().gather(1, interval))[..., None] * (shares / 2)
    x, root = points.flatten(1).t(), weights.sqrt().flatten(1).t()[:, None]
    new_basis, old_basis = (root * basis_reference(x, knots, spline_order) for knots in (new, old))
    gram = torch.einsum("pji,pki->ijk", new_basis, new_basis)
    mixed = torch.einsum("pji,pki->ijk", new_basis, old_basis)
    # basis functions of one size: those at the edge have little inside the grid
    scale = gram.diagonal(dim1=1, dim2=2).rsqrt()
    inverse = torch.linalg.pinv(scale[:, :, None] * gram * scale[:, None], rtol=_LEAST_EIGENVALUE, hermitian=True)
    return scale[:, :, None] * (inverse @ (scale[:, :, None] * mixed))
