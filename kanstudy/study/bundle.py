"""A study as one file for a paper: records, figures, tables, environment, with a manifest and checksums.

    <name>/manifest.json          what it is, how many records in which state, the code and versions it was made with
    <name>/SHA256SUMS             of every other file, as `sha256sum -c` reads them
    <name>/README.txt             how to check and rebuild it
    <name>/results/               records, plans and benches, as they lay in the results folder; simulated ones that lay
                                  beside it in results/beside
    <name>/figures/               figures, captions and tables
    <name>/environment/           requirements.txt, and what was changed since the commit, if anything

The same content gives the same bytes. What is read is taken for foreign until all of it is verified, and nothing is
written before. Checksums tell that nothing was changed by accident or carelessly; that nobody made the whole anew is
told by the checksum of the archive itself, so state it in the paper.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import kanstudy
from kanstudy.files import write_atomically
from kanstudy.record import Record
from kanstudy.study import provenance
from kanstudy.study.archive import BundleError, check_ending, pack, unpack
from kanstudy.study.folder import BESIDE, simulated_beside

FORMAT, VERSION = "kanstudy bundle", 1
MANIFEST, CHECKSUMS, README = "manifest.json", "SHA256SUMS", "README.txt"
FOLDERS = ("results", "figures", "environment")
_SAID = """{name}: the records of a scaling study, and the figures and tables made of them.

Check that nothing was changed:  sha256sum -c {checksums}
Make figures and tables again:   kanstudy report --from THIS_FILE
(kanstudy {version}; environment/requirements.txt has the packages, {manifest} the code state)
"""


def contents(results: Path, figures: Path, experiments: Iterable[str]) -> dict[str, bytes]:
    """Everything of a results folder that an analysis reads, and all figures and tables; by name within a bundle."""
    found = [path for name in (*experiments, "plans", "bench") for path in (results / name).rglob("*.json")]
    files = {f"results/{path.relative_to(results).as_posix()}": path for path in found}
    for other in simulated_beside(results):  # which the report shows, too
        files |= {
            f"results/{BESIDE}/{path.relative_to(other.parent).as_posix()}": path for path in other.rglob("*.json")
        }
    files |= {f"figures/{path.name}": path for path in figures.iterdir()}
    return {name: path.read_bytes() for name, path in files.items() if path.is_file()}


def write_bundle(path: Path, name: str, files: Mapping[str, bytes], records: Iterable[Record]) -> str:
    """Write the bundle of these files to `path`, replacing it as a whole; the SHA-256 of the archive.

    Raises `BundleError` for a name that ends otherwise than in one of `ENDINGS`, `OSError` where it cannot be written.
    """
    check_ending(path)
    root = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "study"
    members = dict(files) | _environment()
    members[MANIFEST] = (json.dumps(_manifest(name, records), indent=1, sort_keys=True) + "\n").encode()
    said = _SAID.format(name=name, checksums=CHECKSUMS, version=kanstudy.__version__, manifest=MANIFEST)
    members[README] = said.encode()
    sums = "".join(f"{_sha256(members[member])}  {member}\n" for member in sorted(members))
    members[CHECKSUMS] = sums.encode()
    placed = {f"{root}/{member}": members[member] for member in sorted(members)}
    data = pack(placed, as_zip=path.name.endswith(".zip"))
    write_atomically(path, data)
    return _sha256(data)


def read_bundle(path: Path) -> dict[str, bytes]:
    """The files of a bundle by name, every one of them verified.

    Raises `BundleError` where it is no archive, holds anything but plain files in their places, is of a newer version,
    or where a file is missing, too many or not what its checksum says; `OSError` where it cannot be read.
    """
    check_ending(path)
    try:
        return _verified(dict(_placed(unpack(path))))
    except BundleError as error:
        raise BundleError(f"{path}: {error}") from error


def _environment() -> dict[str, bytes]:
    """The installed packages, and the changes since the commit, as files."""
    installed = {item.metadata["Name"]: item.version for item in metadata.distributions()}
    lines = sorted((f"{name}=={version}" for name, version in installed.items()), key=str.lower)
    files = {"environment/requirements.txt": "\n".join([*lines, ""]).encode()}
    package = Path(kanstudy.__file__).resolve().parent
    if (provenance.git_state(package) or {}).get("dirty"):
        files["environment/uncommitted.patch"] = provenance.uncommitted(package).encode()
    return files


def _manifest(name: str, records: Iterable[Record]) -> dict[str, Any]:
    records = list(records)
    counts = Counter((record.experiment, record.status) for record in records)
    states: dict[str, dict[str, int]] = {}
    for (experiment, status), count in counts.items():
        states.setdefault(experiment, {})[status] = count
    made = provenance.collect()
    commits = {str((record.provenance.get("git") or {}).get("commit")) for record in records}
    days = sorted(str(record.provenance["utc"]) for record in records if record.provenance.get("utc"))
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "records": states,
        "sources": sorted({record.source for record in records}),
        "devices": sorted({str(record.device_name) for record in records}),
        "measured_with_commits": sorted(commits),
        "measured_utc": [days[0], days[-1]] if days else None,
        "made_with": {part: made[part] for part in ("kanstudy", "git", "python", "system", "packages")},
    }


def _placed(members: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Names below the archive's one folder, each safe to write below another."""
    seen: set[str] = set()
    roots: set[str] = set()
    for name, data in members:
        parts = name.split("/")
        if len(parts) < 2 or any(part in ("", ".", "..") for part in parts) or re.search(r"[\\:\x00-\x1f]", name):
            raise BundleError(f"{name!r}: no name that a bundle has")
        inside = "/".join(parts[1:])
        roots.add(parts[0])
        if len(roots) > 1 or (parts[1] not in FOLDERS and inside not in (MANIFEST, CHECKSUMS, README)):
            raise BundleError(f"{name!r}: no place that a bundle has")
        if inside.lower() in seen:  # one file where case does not matter
            raise BundleError(f"{name!r}: is there twice")
        seen.add(inside.lower())
        yield inside, data


def _verified(members: dict[str, bytes]) -> dict[str, bytes]:
    for name in (MANIFEST, CHECKSUMS):
        if name not in members:
            raise BundleError(f"no bundle of kanstudy: has no {name}")
    try:
        manifest = json.loads(members[MANIFEST])
        lines = members[CHECKSUMS].decode().splitlines()
    except (ValueError, RecursionError) as error:
        raise BundleError(f"no bundle of kanstudy: {MANIFEST} or {CHECKSUMS} cannot be read: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(f"no bundle of kanstudy: {MANIFEST} is not of the format {FORMAT!r}")
    if manifest.get("version") != VERSION:
        raise BundleError(f"version {manifest.get('version')!r}: this version of kanstudy reads {VERSION}")
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    files = {name: data for name, data in members.items() if name != CHECKSUMS}
    for name in sorted(sums.keys() ^ files.keys()):
        raise BundleError(f"{name}: {'missing' if name in sums else f'not in {CHECKSUMS}'}: the bundle was changed")
    for name, data in files.items():
        if _sha256(data) != sums[name]:
            raise BundleError(f"{name}: not what its SHA-256 says: the bundle was changed")
    return files


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
