from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import popskipjump as psj
from popskipjump.questions import card, gate, save
from popskipjump.questions.card import read_certificates
from popskipjump.questions.gate import baseline_of, read_baseline, write_baseline
from popskipjump.runs.collect import load

toml_only = pytest.mark.skipif(sys.version_info < (3, 11), reason="TOML is read by Python 3.11 and later")

MODEL = """
import numpy as np

asked = []


def near():
    def labels(batch):
        asked.append(len(batch))
        return (batch.reshape(len(batch), -1).sum(axis=1) > 4.0).astype(np.int64)

    return labels


def failing():
    def labels(batch):
        if (batch.reshape(len(batch), -1)[:, :2] < 0.12).all(axis=1).any():
            raise ValueError("too dark")
        return (batch.reshape(len(batch), -1).sum(axis=1) > 4.0).astype(np.int64)

    return labels


def nearer():
    return lambda batch: (batch.reshape(len(batch), -1).sum(axis=1) > 2.8).astype(np.int64)
"""
IMAGES = 12


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """A model file may bring its folder along."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("psj_model_"):
            del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model of two factories, and images: class 0, and one of class 1 to start from."""
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    images = np.linspace(0.1, 0.3, IMAGES + 1, dtype=np.float32).repeat(8).reshape(-1, 8)
    images[-1] = 0.9
    np.savez(tmp_path / "data.npz", images=images, labels=np.array([0] * IMAGES + [1]))
    return tmp_path


def _spec(folder: Path, limits: Mapping[str, object], factory: str = "near", **more: Any) -> Path:
    content = {
        "source": {"dataset": "file", "data": "data.npz", "model": f"model.py:{factory}"},
        "run": {"attack": "qsj", "budget": 150, "images": IMAGES},
        "limits": limits,
        **more,
    }
    path = folder / "gate.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("at_least", "code"),
    [(0.1, 0), (5.0, 1), (0.85, 3)],  # true distances: 0.57 to 1.13
)
def test_a_limit_is_kept_broken_or_undecided_by_the_whole_interval(folder: Path, at_least: float, code: int) -> None:
    answer = gate(_spec(folder, {"median_distance": at_least}), folder / "runs")
    assert answer.code == code


def test_robust_accuracy_is_judged_at_each_eta_and_the_worst_counts(folder: Path) -> None:
    limits = {"robust_accuracy": [{"eta": 0.2, "at_least": 0.5}, {"eta": 3.0, "at_least": 0.5}]}
    answer = gate(_spec(folder, limits), folder / "runs")
    assert [item.code for item in answer.limits] == [0, 1]
    assert answer.code == 1


def test_a_worse_model_is_caught_by_the_baseline_and_the_same_one_passes(folder: Path) -> None:
    first = gate(_spec(folder, {"median_distance": 0.1}), folder / "runs")
    write_baseline(folder / "baseline.json", baseline_of(load(Path(first.run))))
    against: dict[str, Any] = {"baseline": {"file": "baseline.json"}}
    assert gate(_spec(folder, {"median_over_baseline": 0.9}, **against), folder / "runs").code == 0
    worse = gate(_spec(folder, {"median_over_baseline": 0.9}, "nearer", **against), folder / "runs")
    assert worse.code == 1
    assert worse.limits[0].measured.high < 0.9


def test_the_folder_of_a_run_is_a_baseline_too(folder: Path) -> None:
    first = gate(_spec(folder, {"median_distance": 0.1}), folder / "runs")
    assert read_baseline(Path(first.run)).image_ids.tolist() == list(range(IMAGES))


def test_a_gate_that_is_called_again_asks_nothing_twice(folder: Path) -> None:
    counts: list[int] = []
    spec = _spec(folder, {"median_distance": 0.1})
    first = gate(spec, folder / "runs", on_queries=counts.append)
    asked = sum(counts)
    second = gate(spec, folder / "runs", on_queries=counts.append)
    assert sum(counts) == asked > 0
    assert second.distances.tolist() == first.distances.tolist()


@toml_only
def test_a_gate_is_read_from_toml(folder: Path) -> None:
    path = folder / "gate.toml"
    path.write_text(
        '[source]\ndataset = "file"\ndata = "data.npz"\nmodel = "model.py:near"\n'
        "[run]\nbudget = 150\nimages = 12\n"
        "[limits]\nmedian_distance = 0.1\nrobust_accuracy = [{ eta = 0.2, at_least = 0.5 }]\n",
        encoding="utf-8",
    )
    assert gate(path, folder / "runs").code == 0


def test_images_that_the_classifier_fails_on_never_make_a_gate_pass(folder: Path) -> None:
    limits = {"robust_accuracy": [{"eta": 0.01, "at_least": 0.6}]}
    assert gate(_spec(folder, limits), folder / "runs").code == 0
    answer = gate(_spec(folder, limits, "failing"), folder / "runs")
    assert answer.unmeasured > 0
    assert answer.code == 3
    assert "could not be measured" in str(answer)


@pytest.mark.parametrize(
    ("limits", "more", "words"),
    [
        ({}, {}, "name at least one of"),
        ({"median_over_baseline": 0.9}, {}, r"needs a \[baseline\]"),
        ({"median_distance": 0.1}, {"baseline": {"file": "none.json"}}, "make one with --write-baseline"),
        ({"median_distance": 0.1, "speed": 3}, {}, "speed"),
        ({"median_distance": 0.1}, {"run": {"images": 99}}, "lower `images`"),
        ({"median_distance": -1.0}, {}, "median_distance"),
        ({"median_distance": 0.1}, {"run": {"attack": "magic", "images": 5}}, "unknown attack"),
    ],
)
def test_a_wrong_file_is_refused_in_words(
    folder: Path, limits: dict[str, Any], more: dict[str, Any], words: str
) -> None:
    with pytest.raises(psj.InputError, match=words):
        gate(_spec(folder, limits, **more), folder / "runs")


def test_a_baseline_from_another_data_set_is_refused_before_the_first_query(folder: Path) -> None:
    first = gate(_spec(folder, {"median_distance": 0.1}), folder / "runs")
    other = baseline_of(load(Path(first.run)))._replace(data="0123")
    write_baseline(folder / "baseline.json", other)
    spec = _spec(folder, {"median_over_baseline": 0.9}, "nearer", baseline={"file": "baseline.json"})
    counts: list[int] = []
    with pytest.raises(psj.InputError, match="measured on other images"):
        gate(spec, folder / "runs", on_queries=counts.append)
    assert counts == []


def test_a_baseline_without_some_of_the_images_is_refused(folder: Path) -> None:
    first = gate(_spec(folder, {"median_distance": 0.1}), folder / "runs")
    whole = baseline_of(load(Path(first.run)))
    write_baseline(
        folder / "baseline.json", whole._replace(image_ids=whole.image_ids[:5], distances=whole.distances[:5])
    )
    spec = _spec(folder, {"median_over_baseline": 0.9}, baseline={"file": "baseline.json"})
    with pytest.raises(psj.InputError, match="lacks 7 of the 12 images"):
        gate(spec, folder / "runs")


@pytest.mark.parametrize("text", ["{", "[]", '{"schema": 7}', '{"schema": 1}'])
def test_a_file_that_is_no_baseline_is_refused(folder: Path, text: str) -> None:
    (folder / "baseline.json").write_text(text, encoding="utf-8")
    with pytest.raises(psj.DataError, match=r"baseline"):
        read_baseline(folder / "baseline.json")


def test_a_card_holds_what_was_asked_found_verified_and_not_shown(folder: Path, tmp_path: Path) -> None:
    run = load(Path(gate(_spec(folder, {"median_distance": 0.1}), folder / "runs").run))
    proof = psj.certify(psj.Plane(np_ones(), 4.0), run.originals[:2], run.labels[:2], 0.3, samples=200, attack=None)
    (tmp_path / "proof").mkdir()
    certified = read_certificates(save(proof, tmp_path / "proof")[0])
    answer = card([run], eta=(0.5, 1.0), certified=certified)
    (tmp_path / "card").mkdir()
    html, text = (path.read_text(encoding="utf-8") for path in save(answer, tmp_path / "card", markdown=True)[1:])
    for part in ("Robustness card", "verified points", "Certified: median L2 radius", "What this does not show"):
        assert part in html
        assert part in text
    assert (
        json.loads((tmp_path / "card" / "card.json").read_text(encoding="utf-8"))["answer"]["entries"][0]["images"]
        == 12
    )


def test_a_card_refuses_certificates_of_other_images(folder: Path, tmp_path: Path) -> None:
    run = load(Path(gate(_spec(folder, {"median_distance": 0.1}), folder / "runs").run))
    proof = psj.certify(
        psj.Plane(np_ones(), 4.0), run.originals[:2] + 0.01, run.labels[:2], 0.3, samples=50, attack=None
    )
    (tmp_path / "proof").mkdir()
    certified = read_certificates(save(proof, tmp_path / "proof")[0])
    with pytest.raises(psj.InputError, match="of other images than the runs"):
        card([run.folder], certified=certified)


def np_ones() -> Any:
    import torch

    return torch.ones(8)


def test_a_card_escapes_what_comes_from_outside(folder: Path) -> None:
    from dataclasses import replace

    from popskipjump.questions.pages import render, render_markdown

    run = load(Path(gate(_spec(folder, {"median_distance": 0.1}), folder / "runs").run))
    made = card([run])
    evil = replace(made, entries=(made.entries[0]._replace(words="<script>alert(1)</script> | `x`"),))
    assert "<script>" not in render(evil.page())
    assert "<script>" not in render_markdown(evil.page())


def test_cards_refuse_runs_that_do_not_belong_together(folder: Path) -> None:
    from dataclasses import replace

    run = load(Path(gate(_spec(folder, {"median_distance": 0.1}), folder / "runs").run))
    other = replace(run, spec=run.spec.but(norm="linf"))
    with pytest.raises(psj.InputError, match="different norms"):
        card([run, other])
    with pytest.raises(psj.InputError, match="one run at least"):
        card([])


def test_a_file_that_holds_no_certificates_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"question": "check", "answer": {}}', encoding="utf-8")
    with pytest.raises(psj.DataError, match="no file of `psj certify`"):
        read_certificates(tmp_path / "x.json")
