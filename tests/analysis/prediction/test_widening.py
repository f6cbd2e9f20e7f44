from __future__ import annotations

from pathlib import Path

import pytest

from kanstudy.analysis.prediction.widening import Widening, WideningError, read

HEAD = "source,quantity,coverage,settings,conformal,level\n"


def test_factors_are_those_of_settings_measured_as_the_ranks_lie(tmp_path: Path) -> None:
    path = tmp_path / "coverage.csv"
    path.write_text(
        HEAD
        + "measured,step_time_s,0.8,10,1.5,0.9\n"
        + "measured,exposed_s,0.7,10,2.5,0.8\n"
        + "measured,batch,0.7,10,,\n"
        + "emulated,step_time_s,0.9,10,9.0,0.9\n"
    )
    found = read(path)
    assert found == Widening({"step_time_s": 1.5, "exposed_s": 2.5}, 0.8, 10)
    assert [found.factor(name) for name in ("step_time_s", "throughput", "overhead", "batch")] == [1.5, 1.5, 2.5, 1.0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEAD + "measured,step_time_s,0.8,3,,\n", "too few settings were held out"),
        (HEAD + "emulated,step_time_s,0.8,10,1.0,0.9\n", "too few settings were held out"),
        (HEAD + "measured,step_time_s,0.8,10,much,0.9\n", "too few settings were held out"),
        (HEAD + "measured,step_time_s,0.8,10,-1.0,0.9\n", "too few settings were held out"),
        (HEAD + "measured,step_time_s,0.8,,1.0,inf\n", "too few settings were held out"),
        ("a,b\n1,2\n", "has no column 'source': must be a coverage table"),
        ("", "cannot be read"),
        (None, "cannot be read: No such file"),
    ],
)
def test_a_table_that_tells_no_factors_is_refused(tmp_path: Path, content: str | None, words: str) -> None:
    path = tmp_path / "coverage.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(WideningError) as raised:
        read(path)
    assert str(raised.value).startswith(str(path))
    assert words in str(raised.value)
