"""A bundle holds what it says, is the same every time, and is taken for foreign until it is verified."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
import stat
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanstudy.study import archive
from kanstudy.study.archive import BundleError
from kanstudy.study.bundle import contents, read_bundle, write_bundle

FILES = {
    "results/strong_scaling/a.json": b'{"x": 1}',
    "figures/strong.csv": b"a,b\n1,2\n",
    "figures/strong.pdf": b"%PDF",
}
ENDINGS = [".zip", ".tar.gz"]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, bytes]:
    """A bundle of either kind."""
    folder = tmp_path_factory.mktemp("written")
    for ending in ENDINGS:
        write_bundle(folder / f"paper{ending}", "laptop", FILES, [])
    return {ending: (folder / f"paper{ending}").read_bytes() for ending in ENDINGS}


@pytest.fixture(params=ENDINGS)
def packed(request, tmp_path: Path, written: dict[str, bytes]) -> Path:
    path = tmp_path / f"paper{request.param}"
    path.write_bytes(written[request.param])
    return path


def members(path: Path) -> dict[str, bytes]:
    """Every member with its full name, without checks."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(path) as archive:
        return {item.name: archive.extractfile(item).read() for item in archive}


def rewrite(path: Path, files: dict[str, bytes], *extra: tarfile.TarInfo | zipfile.ZipInfo) -> None:
    """The archive anew, checksums as they are."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, data in files.items():
                archive.writestr(name, data)
            for info in extra:
                archive.writestr(info, "/etc/passwd")
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in extra:
            archive.addfile(info)


def summed(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with checksums that fit, as one who makes a bundle by hand would have them."""
    rest = {name: data for name, data in files.items() if not name.endswith("SHA256SUMS")}
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name.partition('/')[2]}\n" for name, data in rest.items()]
    return rest | {"laptop/SHA256SUMS": "".join(lines).encode()}


def test_what_is_packed_is_read_again_with_its_environment(packed: Path) -> None:
    found = read_bundle(packed)
    assert {name: found[name] for name in FILES} == FILES
    assert {"manifest.json", "README.txt", "environment/requirements.txt"} <= set(found)
    requirements = found["environment/requirements.txt"].decode().splitlines()
    assert any(line.startswith("numpy==") for line in requirements)
    assert requirements == sorted(requirements, key=str.lower)
    made = json.loads(found["manifest.json"])["made_with"]
    assert {"git", "kanstudy", "packages", "python", "system"} == set(made)


def test_the_same_content_gives_the_same_bytes(packed: Path, tmp_path: Path) -> None:
    again = tmp_path / f"again{''.join(packed.suffixes)}"
    digest = write_bundle(again, "laptop", dict(reversed(FILES.items())), [])
    assert again.read_bytes() == packed.read_bytes()
    assert digest == hashlib.sha256(packed.read_bytes()).hexdigest()


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum")
def test_the_checksums_are_those_of_the_usual_tool(packed: Path, tmp_path: Path) -> None:
    for name, data in members(packed).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    check = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "laptop", capture_output=True, text=True)
    assert check.returncode == 0, check.stdout + check.stderr
    assert check.stdout.count(": OK") == len(members(packed)) - 1


def test_a_results_folder_gives_its_records_plans_and_benches(tmp_path: Path) -> None:
    for name in ("strong/a.json", "plans/strong.json", "bench/x/b.json", "logs/c.json", "strong/a.txt", "data/d.npz"):
        (tmp_path / "r" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "r" / name).write_text("1")
    (tmp_path / "f").mkdir()
    (tmp_path / "f" / "a.pdf").write_text("2")
    expected = {"results/strong/a.json", "results/plans/strong.json", "results/bench/x/b.json", "figures/a.pdf"}
    assert set(contents(tmp_path / "r", tmp_path / "f", ["strong"])) == expected


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("laptop/figures/strong.csv", b"a,b\n1,3\n", "figures/strong.csv: not what its SHA-256 says"),
        ("laptop/figures/strong.csv", None, "figures/strong.csv: missing"),
        ("laptop/figures/new.csv", b"", "figures/new.csv: not in SHA256SUMS"),
        ("laptop/SHA256SUMS", None, "no bundle of kanstudy: has no SHA256SUMS"),
        ("laptop/manifest.json", None, "no bundle of kanstudy: has no manifest.json"),
        ("laptop/manifest.json", b"[]", "is not of the format 'kanstudy bundle'"),
        ("laptop/manifest.json", b"\xff", "cannot be read"),
        ("laptop/manifest.json", b'{"format": "kanstudy bundle", "version": 9}', "version 9: this version of kanstudy"),
    ],
)
def test_a_bundle_that_was_changed_is_refused_in_one_line(
    packed: Path, name: str, data: bytes | None, said: str
) -> None:
    files = members(packed)
    if data is None:
        del files[name]
    else:
        files[name] = data
    rewrite(packed, files)
    with pytest.raises(BundleError) as caught:
        read_bundle(packed)
    assert str(caught.value).startswith(f"{packed}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["../x.json", "/etc/x.json", "laptop/../../x.json", "laptop/results/../../../x", "laptop/results//x",
     "laptop/results/./x", "laptop\\results\\x", "laptop/results/..\\x", "C:/results/x", "laptop/results/a\nb",
     "other/results/x.json", "laptop/elsewhere/x.json", "laptop/kanstudy.py", "laptop/results/STRONG_scaling/a.json"],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused_even_with_its_checksum(packed: Path, name: str) -> None:
    rewrite(packed, summed(members(packed) | {name: b"x"}))
    with pytest.raises(BundleError, match=r"no name that|no place that|there twice"):
        read_bundle(packed)


def test_links_are_refused(packed: Path) -> None:
    if packed.suffix == ".zip":
        link: tarfile.TarInfo | zipfile.ZipInfo = zipfile.ZipInfo("laptop/results/link.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
    else:
        link = tarfile.TarInfo("laptop/results/link.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    rewrite(packed, members(packed), link)
    with pytest.raises(BundleError, match=r"link\.json: is no plain file"):
        read_bundle(packed)


def test_what_would_fill_the_memory_is_refused_before_it_is_unpacked(packed: Path, monkeypatch) -> None:
    rewrite(packed, summed(members(packed) | {"laptop/results/zeros.json": bytes(2**22)}))
    read_bundle(packed)
    monkeypatch.setattr(archive, "LARGEST_BYTES", 2**22)
    with pytest.raises(BundleError, match="unpacks to more than 4 MiB"):
        read_bundle(packed)


def test_a_long_name_does_not_fill_the_memory_either(packed: Path, monkeypatch) -> None:
    """Headers of a tar may be as long as anything, and hold nothing that counts as a file."""
    if packed.suffix == ".zip":
        pytest.skip("names of a zip are short")
    rewrite(packed, members(packed), tarfile.TarInfo(f"laptop/results/{'n' * 2**22}"))
    monkeypatch.setattr(archive, "LARGEST_BYTES", 2**22)
    with pytest.raises(BundleError, match="unpacks to more than 4 MiB"):
        read_bundle(packed)


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_what_is_packed_in_another_way_is_refused(tmp_path: Path, written: dict[str, bytes], method: int) -> None:
    path = tmp_path / "paper.zip"
    path.write_bytes(written[".zip"])
    files = members(path)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    with pytest.raises(BundleError, match="compressed in another way than deflate"):
        read_bundle(path)


@pytest.mark.parametrize("target", [".", "/dev/zero"])
def test_what_is_no_file_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "odd.zip").symlink_to(target)
    with pytest.raises(BundleError, match="is no plain file"):
        read_bundle(tmp_path / "odd.zip")


@pytest.mark.parametrize("ending", ENDINGS)
@given(data=st.binary(max_size=200))
@settings(max_examples=30)
def test_what_is_no_archive_is_refused(tmp_path_factory, ending: str, data: bytes) -> None:
    path = tmp_path_factory.mktemp("x") / f"odd{ending}"
    path.write_bytes(data)
    with pytest.raises(BundleError):
        read_bundle(path)


@given(place=st.floats(0, 0.999), flip=st.integers(1, 255))
@settings(max_examples=200)
def test_no_flipped_byte_goes_through_with_other_content(written, tmp_path_factory, place: float, flip: int) -> None:
    for ending, whole in written.items():
        path = tmp_path_factory.mktemp("x") / f"paper{ending}"
        data = bytearray(whole)
        data[int(place * len(data))] ^= flip
        path.write_bytes(data)
        with contextlib.suppress(BundleError):
            found = read_bundle(path)  # it was a byte that means nothing, of a date say
            assert {name: found[name] for name in FILES} == FILES


@pytest.mark.parametrize("name", ["paper.rar", "paper", "paper.tar"])
def test_another_kind_of_archive_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BundleError, match=r"must end in \.zip, \.tar\.gz, \.tgz"):
        write_bundle(tmp_path / name, "x", {}, [])
    with pytest.raises(BundleError, match="must end in"):
        read_bundle(tmp_path / name)
