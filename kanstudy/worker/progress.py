"""What rank 0 tells the launcher while it measures: one JSON object a line, appended to the progress file."""

from __future__ import annotations

import json
import time
from typing import Any


class Progress:
    """Events of this launch; every other rank than 0 stays silent.

    `block` carries `done` and `total`, in blocks, from which the time left follows; it also tells the launcher at
    which point and arm a launch died.
    """

    def __init__(self, path: str, active: bool) -> None:
        self._path = path
        self._active = active

    def tell(self, event: str, **details: Any) -> None:
        """Append one event with the time now (Unix seconds)."""
        if self._active:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"event": event, "unix_s": time.time(), **details}) + "\n")
