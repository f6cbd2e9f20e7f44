"""The file of a bundle: a zip or a compressed tar of plain files, with the same bytes for the same content.

Members are in the order in which they are given, and carry no times or owners. What is read is taken for foreign:
anything but plain files is refused, and so is more than memory should hold.
"""

from __future__ import annotations

import gzip
import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

ENDINGS = (".zip", ".tar.gz", ".tgz")
LARGEST_BYTES = 2**30
"""Of all members together, unpacked: they are held in memory."""
_UNREADABLE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    ValueError,
    LookupError,
)
"""What the archives' own modules raise on bytes that are none; zipfile also, on encryption and unknown methods, a
RuntimeError."""


class BundleError(ValueError):
    """A file that is no bundle, or one that was changed; the message names the file and what is wrong."""


def check_ending(path: Path) -> None:
    """Raise `BundleError` where the name does not tell the kind of archive."""
    if not path.name.endswith(ENDINGS):
        raise BundleError(f"{path}: must end in {', '.join(ENDINGS)}")


def pack(members: Mapping[str, bytes], as_zip: bool) -> bytes:
    """The archive of these members, a zip or a compressed tar, as bytes."""
    return _zip(members) if as_zip else _tar(members)


def unpack(path: Path) -> Iterator[tuple[str, bytes]]:
    """Names and contents of an archive's files, one after another; its name tells its kind.

    Raises `BundleError` where it is none, is too large, or holds anything but plain files; `OSError` where it cannot be
    read.
    """
    if path.exists() and not path.is_file():
        raise BundleError("is no plain file")
    if path.stat().st_size > LARGEST_BYTES:
        raise BundleError(f"is larger than {LARGEST_BYTES >> 20} MiB")
    data = io.BytesIO(path.read_bytes())
    try:
        yield from _zipped(data) if path.name.endswith(".zip") else _tarred(data)
    except BundleError:
        raise
    except (*_UNREADABLE, RuntimeError) as error:
        raise BundleError(f"not an archive that can be read: {error}") from error


def _zip(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)  # of 1980: the earliest that a zip knows
            info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED, compresslevel=9)
    return buffer.getvalue()


def _tar(members: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in members.items():
            info = tarfile.TarInfo(name)  # of no time, nobody's
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _zipped(data: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of a zip's files."""
    with zipfile.ZipFile(data) as archive:
        files = [info for info in archive.infolist() if not info.is_dir()]
        _refuse_large(sum(info.file_size for info in files))
        for info in files:
            if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
                raise BundleError(f"{info.filename}: is no plain file")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise BundleError(f"{info.filename}: is compressed in another way than deflate")
            yield info.filename, archive.read(info)


def _tarred(data: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """Names and contents of a compressed tar's files."""
    with gzip.open(data) as packed:  # with a bound, headers too: a name may be as long as anything
        whole = packed.read(LARGEST_BYTES + 1)
    _refuse_large(len(whole))
    with tarfile.open(fileobj=io.BytesIO(whole), mode="r:") as archive:
        total = 0
        for member in archive:
            if member.isdir():
                continue
            file = archive.extractfile(member) if member.isreg() else None
            if file is None:
                raise BundleError(f"{member.name}: is no plain file")
            total += member.size
            _refuse_large(total)  # of a sparse file, too, which is larger than the archive
            yield member.name, file.read()


def _refuse_large(size: int) -> None:
    if size > LARGEST_BYTES:
        raise BundleError(f"unpacks to more than {LARGEST_BYTES >> 20} MiB")
