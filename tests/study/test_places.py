from __future__ import annotations

import pytest
from profiles_for_tests import STRONG, profile_of

from kanstudy.study import places
from kanstudy.study.places import figures_dir, folder_to_read, project_root, results_dir
from kanstudy.study.profile import ProfileError, load_profile


def test_results_and_figures_lie_in_the_project_under_the_profiles_name(tmp_path, monkeypatch, repository):
    profile = profile_of(tmp_path, STRONG)
    monkeypatch.chdir(tmp_path)
    assert project_root() == repository
    assert results_dir(profile) == repository / "results" / "tiny"
    assert figures_dir(profile) == repository / "figures" / "tiny"
    assert results_dir(profile, "own") == tmp_path / "own"
    monkeypatch.setattr(places.kanstudy, "__file__", str(tmp_path / "site-packages/kanstudy/__init__.py"))
    assert project_root() == tmp_path


@pytest.mark.parametrize(
    ("profile", "given", "folder"),
    [("", "", "results/reference/laptop"), ("smoke", "", "results/smoke"), ("smoke", "/own", "/own")],
)
def test_what_is_shown_is_what_is_given_or_the_profiles_or_the_reference(repository, profile, given, folder):
    assert folder_to_read(profile, given) == repository / folder


def test_results_where_nobody_is_at_home_are_said():
    for ask in (lambda folder: results_dir(load_profile("smoke"), folder), lambda folder: folder_to_read(given=folder)):
        with pytest.raises(ProfileError, match="results_dir = '~nobody-at-all/x': cannot be used: "):
            ask("~nobody-at-all/x")


@pytest.mark.parametrize("folder", [2024, 0, 1.5])  # papermill's -p results_dir 2024
def test_results_in_no_folders_path_are_said(folder):
    for ask in (lambda: results_dir(load_profile("smoke"), folder), lambda: folder_to_read(given=folder)):
        with pytest.raises(ProfileError, match=f"results_dir = {folder}: must be a folder's path, as text"):
            ask()
