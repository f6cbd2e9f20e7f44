"""How data-parallel training of Kolmogorov-Arnold networks scales: measured, attributed, explained.

Four names are for use on their own, and keep their meaning; each is imported when it is first asked for, so that
`import kanstudy` needs the standard library alone:

- `KAN`, a `torch.nn.Module` of one layer or several, for a model of your own;
- `load`, the records of a results folder;
- `attribution`, where the parallel efficiency of records goes, factor by factor, as a data frame;
- `analyse`, speed-up and efficiency of a table of scaling results that others measured.

Everything below them may change from version to version.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kanstudy.analysis.attribution.decomposition import attribution as attribution
    from kanstudy.analysis.external.efficiency import analyse as analyse
    from kanstudy.analysis.results import load as load
    from kanstudy.model.kan import KAN as KAN

__version__ = "0.1.0"
__all__ = ["KAN", "analyse", "attribution", "load"]
_HOMES = {
    "KAN": "kanstudy.model.kan",
    "analyse": "kanstudy.analysis.external.efficiency",
    "attribution": "kanstudy.analysis.attribution.decomposition",
    "load": "kanstudy.analysis.results",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kanstudy' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
