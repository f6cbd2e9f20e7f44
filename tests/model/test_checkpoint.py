from __future__ import annotations

import pytest
import torch

from kanstudy.model import KAN, MLP, load_checkpoint, save_checkpoint


def edited(path, change):
    content = torch.load(path, weights_only=True)
    change(content)
    torch.save(content, path)


@pytest.mark.parametrize(
    "model",
    [
        KAN([3, 4, 1], grid_size=7, spline_order=2, grid_range=(-2, 3), base_activation="tanh"),
        KAN([3, 4, 1], dtype=torch.float64),
        MLP([3, 4, 1], activation="gelu"),
    ],
    ids=["kan", "kan64", "mlp"],
)
def test_round_trip_carries_configuration_type_and_weights(model, tmp_path):
    path = tmp_path / "runs" / "model.pt"
    save_checkpoint(model, path)
    loaded = load_checkpoint(path)
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    x = torch.rand(6, 3, dtype=next(model.parameters()).dtype)
    assert torch.equal(loaded(x), model(x))
    assert [file.name for file in path.parent.iterdir()] == ["model.pt"]  # nothing temporary is left


def test_moved_grids_and_a_changed_type_are_kept(tmp_path):
    model = KAN([3, 1])
    model.layers[0].knots.mul_(2)
    model.to(torch.float64)
    save_checkpoint(model, tmp_path / "model.pt")
    loaded = load_checkpoint(tmp_path / "model.pt")
    assert torch.equal(loaded.layers[0].knots, model.layers[0].knots)
    assert loaded.layers[0].weight.dtype == torch.float64


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.pt"
    model = KAN([3, 1])
    save_checkpoint(model, path)
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(KAN([5, 1]), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.pt"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content["state_dict"].pop("layers.0.knots"), "layers.0.knots"),
        (lambda content: content["state_dict"].update(extra=torch.zeros(1)), "extra"),
        (lambda content: content["state_dict"]["layers.0.knots"].fill_(torch.nan), "knots"),
        (lambda content: content["config"].update(grid_size=9), "size mismatch"),
        (lambda content: content["config"].update(grid_size=0), "grid_size"),
        (lambda content: content["config"].update(colour="red"), "colour"),
        (lambda content: content["config"].update(model="cnn"), "model"),
        (lambda content: content.update(dtype="float16"), "dtype"),
        (lambda content: content.update(format="other"), "not a checkpoint"),
        (lambda content: content.pop("config"), "config"),
    ],
)
def test_a_damaged_checkpoint_is_refused_and_named(change, message, tmp_path):
    path = tmp_path / "model.pt"
    save_checkpoint(KAN([3, 1]), path)
    edited(path, change)
    with pytest.raises(ValueError, match=message) as caught:
        load_checkpoint(path)
    assert "model.pt" in str(caught.value)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "model.pt"
    for content in (b"", b"not a checkpoint", b"PK\x03\x04 cut short"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"model\.pt"):
            load_checkpoint(path)
    torch.save(KAN([3, 1]), path)  # a pickled model could execute anything
    with pytest.raises(ValueError, match=r"model\.pt"):
        load_checkpoint(path)
    with pytest.raises(FileNotFoundError):
        load_checkpoint(tmp_path / "missing.pt")


def test_only_models_of_a_known_type_are_saved(tmp_path):
    for wrong in (torch.nn.Linear(2, 1), None, KAN([2, 1]).half()):
        with pytest.raises(TypeError):
            save_checkpoint(wrong, tmp_path / "model.pt")
    assert list(tmp_path.iterdir()) == []


def test_another_operator_may_be_asked_for_where_the_first_does_not_work(tmp_path, monkeypatch):
    model = KAN([3, 4, 1], operator="fused")
    save_checkpoint(model, tmp_path / "model.pt")
    monkeypatch.setattr(
        "kanstudy.model.operators._missing", lambda name, device: "it is gone" if name == "fused" else None
    )
    with pytest.raises(ValueError, match=r"model\.pt: operator = 'fused': it is gone"):
        load_checkpoint(tmp_path / "model.pt")
    loaded = load_checkpoint(tmp_path / "model.pt", operator="reference")
    assert loaded.operator == loaded.config["operator"] == "reference"
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in model.state_dict().items())
    with pytest.raises(ValueError, match=r"model\.pt: operator = 'magic'"):
        load_checkpoint(tmp_path / "model.pt", operator="magic")
