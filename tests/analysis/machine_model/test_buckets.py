from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from fabricate import make_point
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.nn.parallel import DistributedDataParallel

from kanstudy.analysis import results
from kanstudy.analysis.machine_model.buckets import assign, gradient_buckets, last_layers
from kanstudy.analysis.machine_model.work import layer_bytes, n_parameters
from kanstudy.model import build_model
from kanstudy.spec import PointSpec

MIB = 2**20


@pytest.fixture(scope="module")
def one_gloo_rank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = dist.FileStore(str(tmp_path_factory.mktemp("store") / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def torchs_buckets(point: PointSpec, bucket_cap_mb: float | None) -> list[int]:
    """The buckets of the reducer in its third step, when it has made those that stay."""
    seen: dict[int, int] = {}

    def hook(state, bucket):
        seen[bucket.index()] = bucket.buffer().numel() * bucket.buffer().element_size()
        return noop_hook(None, bucket)

    ddp = DistributedDataParallel(build_model(point), bucket_cap_mb=bucket_cap_mb)
    ddp.register_comm_hook(None, hook)
    x = torch.rand(4, point.layer_widths[0], dtype=getattr(torch, point.dtype))
    for _ in range(3):
        seen.clear()
        ddp(x).sum().backward()
    return [seen[index] for index in sorted(seen)]


WIDE = (8, 400, 300, 200, 1)
MODELS = {
    "kan": {"layer_widths": WIDE, "operator": "reference"},
    "fine grid": {"layer_widths": WIDE, "operator": "reference", "grid_size": 40, "spline_order": 2},
    "double": {"layer_widths": (6, 90, 90, 3), "operator": "reference", "dtype": "float64"},
    "mlp": {"layer_widths": (8, 700, 800, 900, 2), "model": "mlp"},
}


@pytest.mark.parametrize("cap_mb", [0.001, 0.3, 1.0, 2.5, 25.0])
@pytest.mark.parametrize("model", MODELS)
def test_buckets_are_those_of_torchs_reducer(model: str, cap_mb: float, one_gloo_rank: None) -> None:
    """A cap that is given is the first bucket's, too."""
    point = make_point(**MODELS[model], bucket_cap_mb=cap_mb)
    assert gradient_buckets(point) == torchs_buckets(point, cap_mb)


def test_a_tensor_larger_than_the_cap_is_one_bucket() -> None:
    point = make_point(layer_widths=(8, 400, 300, 200, 1), grid_size=40, bucket_cap_mb=1.0)
    assert max(gradient_buckets(point)) > 20 * MIB


def test_buckets_are_those_of_measured_records(repository: Path) -> None:
    seen = 0
    for record in results.load(repository / "results" / "reference" / "laptop").records:
        found = [arm.bucket_bytes for arm in record.arms.values() if arm.bucket_bytes]
        if not found:
            continue
        names = ("model", "layer_widths", "grid_size", "spline_order", "operator", "bucket_cap_mb")
        point = make_point(**{name: getattr(record, name) for name in names})
        assert gradient_buckets(point) == found[0]
        assert (sum(layer_bytes(point)), n_parameters(point)) == (record.gradient_bytes, record.n_params)
        seen += len(found[0]) > 1
    assert seen >= 2, "one bucket alone tells nothing of the cap"


@given(
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=12),
    cap=st.integers(1, 150),
)
def test_every_tensor_is_in_one_bucket_and_no_bucket_goes_on_once_full(sizes: list[int], cap: int) -> None:
    found = assign(sizes, cap)
    assert [place for bucket in found for place in bucket] == list(range(len(sizes)))
    for bucket in found:
        assert sum(sizes[place] for place in bucket[:-1]) < cap
        if bucket is not found[-1]:
            assert sum(sizes[place] for place in bucket) >= cap


def test_a_bucket_is_complete_with_the_layer_nearest_to_the_input() -> None:
    assert last_layers(make_point(bucket_cap_mb=0.001)) == [2, 1, 0]
    assert last_layers(make_point(bucket_cap_mb=0.1)) == [1, 0]
    assert last_layers(make_point()) == [0]
