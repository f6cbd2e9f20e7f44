from __future__ import annotations

from fabricate import empty_arms, make_record

from kanstudy.analysis import estimates
from kanstudy.analysis.guidelines.sizes import model_size
from kanstudy.record import Fault

SIZE = {"experiment": "model_size_scaling"}


def sized(width: int, **changes: object):
    return make_record(layer_widths=(32, width, 1), **SIZE, **changes)


def test_the_largest_that_fits_and_what_does_not() -> None:
    fault = Fault(reason="out of memory", arm="ddp", rank=0)
    too_large = empty_arms(sized(4096, status="oom", error=fault))
    records = [sized(256), sized(64), too_large]
    (found,) = model_size(estimates.model_size(records))
    memory = max(records[0].arms["ddp"].peak_memory_bytes)
    assert f"held widths 32-256-1 ({records[0].n_params} parameters) in {memory / 2**20:.0f} MiB" in found["sentence"]
    assert "32-4096-1 did not fit (counted, so without interval)" in found["sentence"]
    assert set(found["point_ids"].split()) == {record.point_id for record in records}
    per_byte = [record.n_params / max(record.arms["ddp"].peak_memory_bytes) for record in records[:2]]
    assert f"{per_byte[0] / per_byte[1]:.2f} times the parameters per byte of widths 32-64-1" in found["sentence"]


def test_all_that_fit_are_said_to_fit() -> None:
    (found,) = model_size(estimates.model_size([sized(64), sized(256)]))
    assert "all measured ones fit" in found["sentence"]


def test_one_size_or_sizes_of_other_work_say_nothing() -> None:
    assert not list(model_size(estimates.model_size([sized(64)])))
    assert not list(model_size(estimates.model_size([sized(64), sized(256, global_batch_size=512)])))
    assert not list(model_size(estimates.model_size([sized(64), sized(256, grid_size=15)])))
    assert not list(model_size(estimates.model_size([])))
