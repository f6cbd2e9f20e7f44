"""Where things lie: the project, and in it each profile's results and figures, and those of the reference."""

from __future__ import annotations

from pathlib import Path

import kanstudy
from kanstudy.study.profile import REFERENCE, Profile, ProfileError, load_profile


def project_root() -> Path:
    """The checkout in which the package lies; the current folder where it is installed elsewhere."""
    checkout = Path(kanstudy.__file__).resolve().parent.parent
    return checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()


def results_dir(profile: Profile, given: str | Path = "") -> Path:
    """Where the profile's records lie: the folder given, or `results/<profile>` of the project; `ProfileError` where
    there can be none of that name."""
    return resolved(given) if given != "" else project_root() / "results" / profile.name


def resolved(given: str | Path) -> Path:
    """The folder of results that is given, its path in full; `ProfileError` where there can be none of that name."""
    if not isinstance(given, (str, Path)):  # papermill passes on what looks like a number as one
        raise ProfileError(f"results_dir = {given!r}: must be a folder's path, as text")
    try:
        return Path(given).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:  # nobody's home, a loop of links
        raise ProfileError(f"results_dir = {str(given)!r}: cannot be used: {error}") from error


def folder_to_read(profile: str = "", given: str = "") -> Path:
    """The results to show: the folder given, or the profile's, or without either the reference result."""
    if given != "":
        return resolved(given)
    if profile:
        return results_dir(load_profile(profile))
    return project_root() / "results" / REFERENCE / "laptop"


def figures_dir(profile: Profile) -> Path:
    """Where the profile's figures and tables lie: `figures/<profile>` of the project."""
    return project_root() / "figures" / profile.name
