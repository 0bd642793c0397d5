from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from .conftest import Psj

QUICK = ("--iterations", 2, "--verdict", 20, "--threads", 1)


def _report(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return content


def test_the_embedded_model_is_attacked_without_any_option_about_it(psj: Psj) -> None:
    result = psj("attack", "--images", 2, "--noise", "flip:0.1", *QUICK)
    assert result.exit_code == 0, result.output
    assert "qsj, noise flip:0.1: 2 of 2 images confirmed" in result.stdout
    assert "queries per image" in result.stdout


@pytest.mark.parametrize("factory", ["function", "module", "oracle", "made"])
def test_whatever_a_factory_returns_is_attacked_and_so_is_a_model_itself(
    psj: Psj, models: Path, data: Path, factory: str
) -> None:
    result = psj("attack", "--model", f"{models}:{factory}", "--data", data, *QUICK)
    assert result.exit_code == 0, result.output
    assert "4  FINISHED" in result.stdout


def test_the_results_hold_every_image_the_spec_and_the_versions(psj: Psj, models: Path, data: Path) -> None:
    out = data.parent / "out"
    words = ("--start-index", 1, "--images", 2, "--seed", 3, "--out", out, *QUICK)
    result = psj("attack", "--model", f"{models}:function", "--data", data, *words)
    assert result.exit_code == 0, result.output
    report = _report(out)
    assert report["spec"]["seed"] == 3
    assert report["spec"]["data"] == str(data)
    assert set(report["versions"]) >= {"popskipjump", "python", "torch", "numpy"}
    first = report["images"][0]
    assert [image["image"] for image in report["images"]] == [1, 2]
    assert first["status"] == "FINISHED"
    assert first["queries"] == sum(first["queries_by_phase"].values())
    assert first["verdict"]["queries"] == 20
    assert first["border_distance"] is None  # a function has no white box
    with np.load(out / "points.npz") as arrays:
        change = (arrays["points"] - arrays["originals"]).reshape(2, -1)
        assert arrays["labels"].tolist() == [1, 0]
    distances = [image["distance"] for image in report["images"]]
    np.testing.assert_allclose(np.linalg.norm(change, axis=1), distances, rtol=1e-5)


def test_an_image_gives_the_same_numbers_alone_and_in_company(psj: Psj, models: Path, data: Path) -> None:
    model = ("--model", f"{models}:module", "--data", data, "--noise", "flip:0.1", *QUICK)
    assert psj("attack", *model, "--out", data.parent / "all").exit_code == 0
    assert psj("attack", *model, "--start-index", 2, "--images", 1, "--out", data.parent / "one").exit_code == 0
    assert _report(data.parent / "one")["images"][0] == _report(data.parent / "all")["images"][2]


def test_what_is_not_finite_is_null_in_the_report(psj: Psj, models: Path, data: Path) -> None:
    never = models.parent / "never.py"
    never.write_text("import numpy as np\n\n\ndef make():\n    return lambda batch: np.zeros(len(batch), int)\n")
    out = data.parent / "out"
    assert psj("attack", "--model", f"{never}:make", "--data", data, "--images", 1, "--out", out).exit_code == 0
    image = _report(out)["images"][0]
    assert (image["status"], image["distance"], image["verdict"]) == ("NO_START", None, None)


def test_weights_fill_a_torch_module(psj: Psj, models: Path, data: Path) -> None:
    weights = {"1.weight": np.array([[1.0] * 4, [0.0] * 4], np.float32), "1.bias": np.array([0.0, 2.0], np.float32)}
    save_file(weights, data.parent / "w.safetensors")
    words = ("--model", f"{models}:module", "--data", data, "--weights", data.parent / "w.safetensors", *QUICK)
    assert "4  MISCLASSIFIED" in psj("attack", *words).stdout  # these weights swap the classes


def test_targets_come_from_the_data(psj: Psj, models: Path, data: Path) -> None:
    words = ("--model", f"{models}:function", "--data", data, "--targeted", "--out", data.parent / "out", *QUICK)
    assert psj("attack", *words).exit_code == 0
    assert [image["target"] for image in _report(data.parent / "out")["images"]] == [1, 0, 1, 0]


def test_a_budget_and_a_distance_to_stop_at_are_kept(psj: Psj, models: Path, data: Path) -> None:
    words = ("--model", f"{models}:function", "--data", data, "--norm", "linf", "--starts", "noise", "--votes", 3)
    assert psj("attack", *words, "--budget", 200, "--out", data.parent / "a").exit_code == 0
    assert all(image["queries"] <= 200 for image in _report(data.parent / "a")["images"])
    assert "CLOSE_ENOUGH" in psj("attack", *words, "--stop-distance", 9).stdout


def test_a_folder_with_something_in_it_is_left_alone_without_force(psj: Psj, models: Path, data: Path) -> None:
    words = ("attack", "--model", f"{models}:function", "--data", data, "--out", data.parent, *QUICK)
    refused = psj(*words)
    assert refused.exit_code == 2
    assert "--force" in refused.stderr
    assert not (data.parent / "report.json").exists()
    assert psj(*words, "--force").exit_code == 0
    assert (data.parent / "report.json").exists()
    assert data.exists()


def test_an_interrupted_run_is_listed_and_goes_on(psj: Psj, models: Path, data: Path) -> None:
    out, model = data.parent / "out", ("--model", f"{models}:stopped", "--data", data)
    text = models.read_text(encoding="utf-8").replace(
        "> 300", "> int(__import__('pathlib').Path(__file__ + '.limit').read_text())"
    )
    models.write_text(text, encoding="utf-8")
    limit = models.with_name("models.py.limit")
    limit.write_text("300")
    stopped = psj("attack", *model, "--out", out, *QUICK)
    assert stopped.exit_code == 130
    assert f"psj resume {out}" in stopped.stderr
    listed = psj("runs", out).output
    assert "0/4" in listed
    assert "answers of 4 images" in listed
    assert "queries were in flight at an interruption" in listed
    limit.write_text("1_000_000")
    resumed = psj("resume", out, "--model", f"{models}:stopped")
    assert resumed.exit_code == 0, resumed.output
    whole = psj("attack", "--model", f"{models}:function", "--data", data, "--out", data.parent / "whole", *QUICK)
    assert whole.exit_code == 0
    assert _report(out)["images"] == _report(data.parent / "whole")["images"]


def test_a_finished_attack_is_listed_reported_and_not_asked_again(psj: Psj, models: Path, data: Path) -> None:
    out = data.parent / "out"
    words = ("attack", "--model", f"{models}:module", "--data", data, "--targeted", "--bounds", 0, 2, "--out", out)
    first = psj(*words, "--images", 2, *QUICK)
    assert first.exit_code == 0, first.output
    assert "done" in psj("runs", out).output
    assert psj("report", out, "--out", data.parent / "page.html").exit_code == 0
    assert psj("resume", out).exit_code == 0
    models.write_text(models.read_text(encoding="utf-8").replace("def module():", "def module():\n    # other"))
    assert "another spec" in psj(*words, *QUICK).stderr


def test_the_same_command_for_more_images_adds_them(psj: Psj, models: Path, data: Path) -> None:
    words = ("attack", "--model", f"{models}:module", "--data", data, "--out", data.parent / "out", *QUICK)
    assert psj(*words, "--images", 1).exit_code == 0
    before = _report(data.parent / "out")["images"]
    assert psj(*words, "--images", 3).exit_code == 0
    after = _report(data.parent / "out")["images"]
    assert after[:1] == before
    assert [image["image"] for image in after] == [0, 1, 2]


def test_fewer_images_than_asked_for_are_said(psj: Psj, models: Path, data: Path) -> None:
    result = psj("attack", "--model", f"{models}:function", "--data", data, "--images", 5000, *QUICK)
    assert "only 4 images from number 0 on, not the 5000 asked for" in result.stderr


@pytest.mark.parametrize("factory", ["module", "picky"])
@pytest.mark.parametrize("kept", [False, True])
def test_a_model_that_does_not_fit_the_embedded_images_names_them(
    psj: Psj, models: Path, factory: str, kept: bool
) -> None:
    text = "\n\ndef picky():\n    return lambda batch: _labels(batch.reshape(-1, 2, 2)[: 1 / (batch.size == 4)])\n"
    models.write_text(models.read_text(encoding="utf-8") + text, encoding="utf-8")
    out = ("--out", models.parent / "out") if kept else ()
    result = psj("attack", "--model", f"{models}:{factory}", "--images", 2, *QUICK, *out)
    assert result.exit_code == 2
    assert "the embedded MNIST images" in result.stderr


@pytest.mark.parametrize("kept", [False, True])
def test_sigterm_is_ctrl_c_with_an_exit_code_of_its_own(psj: Psj, models: Path, data: Path, kept: bool) -> None:
    text = models.read_text(encoding="utf-8").replace("raise KeyboardInterrupt", "os.kill(os.getpid(), 15)")
    models.write_text(f"import os\n{text}", encoding="utf-8")
    out = ("--out", data.parent / "out") if kept else ()
    result = psj("attack", "--model", f"{models}:stopped", "--data", data, *QUICK, *out)
    assert result.exit_code == 143
    if kept:
        assert "answers of 4 images" in psj("runs", data.parent / "out").output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--noise", "flop:1"), "unknown noise model 'flop:1'"),
        (("--attack", "psi"), "choose one of boundary, hsj, psj, psj-true-gradient"),
        (("--norm", "l3"), "unknown norm"),
        (("--bounds", 1, 0), "low < high"),
        (("--start-index", 1000), "beyond the last of 1000 images"),
        (("--targeted",), "--targeted needs --data"),
        (("--data", "none.npz"), "there is no file none.npz"),
        (("--weights", "none.safetensors"), "there is no weights file"),
        (("--model", "models.py"), "file.py:factory"),
        (("--model", "none.py:make"), "there is no file none.py"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(psj: Psj, words: tuple[object, ...], said: str) -> None:
    result = psj("attack", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not result.stdout


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("absent", "does not define absent"),
        ("number", "cannot be called"),
        ("broken", "RuntimeError: no such service (line"),
        ("needy", "called without arguments"),
        ("forgotten", "returned None: end it with `return` and the model"),
    ],
)
def test_a_factory_that_fails_is_named_with_the_cause(psj: Psj, models: Path, factory: str, said: str) -> None:
    result = psj("attack", "--model", f"{models}:{factory}")
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_model_file_with_an_error_is_named_with_its_line(psj: Psj, tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    path.write_text("x = 1\nimport no_such_module\n", encoding="utf-8")
    result = psj("attack", "--model", f"{path}:make")
    assert result.exit_code == 2
    assert "no_such_module" in result.stderr
    assert "(line 2)" in result.stderr


def test_images_of_one_class_cannot_start_from_each_other(psj: Psj, models: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.npz"
    np.savez(path, images=np.zeros((2, 1, 2, 2), np.uint8), labels=np.zeros(2, int))
    words = ("--model", f"{models}:function", "--data", path, *QUICK)
    result = psj("attack", *words)
    assert result.exit_code == 2
    assert "--starts noise" in result.stderr
    assert psj("attack", *words, "--starts", "noise").exit_code == 0


@pytest.mark.parametrize(
    ("extra", "said"), [({}, "no array targets"), ({"targets": np.array([1.0, 0.0])}, "must be 2 integers")]
)
def test_targets_that_are_absent_or_unfit_are_refused(
    psj: Psj, models: Path, tmp_path: Path, extra: dict[str, Any], said: str
) -> None:
    path = tmp_path / "other.npz"
    np.savez(path, images=np.array([[0.1] * 4, [0.9] * 4], np.float32), labels=np.array([0, 1]), **extra)
    result = psj("attack", "--model", f"{models}:function", "--data", path, "--targeted")
    assert result.exit_code == 2
    assert said in result.stderr
