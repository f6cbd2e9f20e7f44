from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from kanstudy.worker.ddp_counters import KEYS, count_every_step, counted
from kanstudy.worker.instrument import _BucketWatch


def bucket(index: int, tensor: torch.Tensor) -> SimpleNamespace:
    return SimpleNamespace(index=lambda: index, buffer=lambda: tensor)


def test_buckets_are_timed_in_their_order_from_the_start_of_backward() -> None:
    watch = _BucketWatch(torch.device("cpu"))
    watch.hook(None, bucket(5, torch.zeros(1)))
    watch.start()
    for index in (0, 1):
        future = watch.hook(None, bucket(index, torch.zeros(10 * (index + 1))))
        assert future.wait().numel() == 10 * (index + 1)
    first, second = watch.ready_s()
    assert 0 <= first <= second
    assert watch.bytes == {0: 40, 1: 80}


@pytest.mark.gpu
def test_on_cuda_events_time_the_device_not_the_host() -> None:
    device = torch.device("cuda", 0)
    x = torch.randn(4096, 4096, device=device)
    torch.cuda.synchronize(device)
    watch = _BucketWatch(device)
    for _ in range(20):
        x = x @ x / 64
    watch.hook(None, bucket(0, x))
    for _ in range(20):
        x = x @ x / 64
    watch.hook(None, bucket(1, x))
    torch.cuda.synchronize(device)
    first, second = watch.ready_s()
    assert 0 < first < second  # by the host's clock both came before the device had begun
    assert second > 1.5 * first


def test_counters_that_this_torch_does_not_have_are_left_out() -> None:
    count_every_step(nn.Linear(1, 1))
    assert counted(nn.Linear(1, 1)) is None
    module = nn.Linear(1, 1)
    module._get_ddp_logging_data = lambda: {"backward_comm_time": 5}
    assert counted(module) is None
    module._get_ddp_logging_data = lambda: dict.fromkeys(KEYS.values(), 2_000_000)
    assert counted(module) == dict.fromkeys(KEYS, 2e-3)
