"""`psj attack` within a space: --mask, --scale, --columns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from popskipjump.storage import RunFolder

from .conftest import Psj

QUICK = ("--iterations", 2, "--verdict", 0, "--threads", 1, "--images", 3)
COLUMNS = {
    "columns": [
        {"name": "age", "kind": "integer", "low": 18, "high": 90, "immutable": True},
        {"name": "income", "kind": "number", "low": 0, "high": 90},
        {"name": "rooms", "kind": "integer", "low": 1, "high": 9},
        {"name": "job", "kind": "category", "values": ["clerk", "nurse", "smith"]},
    ]
}
MODEL = """
def model():
    return lambda rows: (rows[:, 1] / 90 + rows[:, 2] / 9 + (rows[:, 3] == 1) > 1.2).astype(int)
"""


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Path]:
    draw = np.random.default_rng(0)
    rows = np.stack(
        [draw.integers(18, 91, 40), draw.uniform(0, 90, 40), draw.integers(1, 10, 40), draw.integers(0, 3, 40)], axis=1
    ).astype(np.float32)
    labels = (rows[:, 1] / 90 + rows[:, 2] / 9 + (rows[:, 3] == 1) > 1.2).astype(np.int64)
    np.savez(tmp_path / "table.npz", images=rows, labels=labels)
    (tmp_path / "columns.json").write_text(json.dumps(COLUMNS))
    (tmp_path / "model.py").write_text(MODEL)
    return {name: tmp_path / name for name in ("table.npz", "columns.json", "model.py", "out", "mask.npy")}


def _words(table: dict[str, Path], *more: Any) -> tuple[Any, ...]:
    return ("attack", "--model", f"{table['model.py']}:model", "--data", table["table.npz"], *more, *QUICK)


def test_a_column_file_gives_valid_rows_and_stands_in_the_report(psj: Psj, table: dict[str, Path]) -> None:
    result = psj(*_words(table, "--columns", table["columns.json"], "--out", table["out"]))
    assert result.exit_code == 0, result.output
    assert "3 of 4 features may change" in result.stdout
    spec = json.loads((table["out"] / "report.json").read_text())["spec"]
    assert spec["space"]["names"] == ["age", "income", "rooms", "job"]
    assert len(spec["space"]["digest"]) == 64
    with np.load(table["out"] / "points.npz") as arrays:
        points, originals = arrays["points"], arrays["originals"]
    assert np.array_equal(points[:, 0], originals[:, 0])
    assert (points[:, 2:] % 1 == 0).all()
    assert not np.array_equal(points, originals)


def test_a_mask_and_a_scale_work_on_images(psj: Psj, tmp_path: Path) -> None:
    mask = np.zeros((28, 28), np.uint8)
    mask[4:24, 4:24] = 1
    np.save(tmp_path / "mask.npy", mask)
    words = ("--mask", tmp_path / "mask.npy", "--scale", "std", "--out", tmp_path / "out", *QUICK)
    result = psj("attack", "--attack", "hsj", *words)
    assert result.exit_code == 0, result.output
    assert "400 of 784 features may change" in result.stdout
    with np.load(tmp_path / "out" / "points.npz") as arrays:
        change = (arrays["points"] - arrays["originals"]).reshape(-1, 28, 28)
    assert change[:, mask == 0].max() == 0
    assert np.abs(change).max() > 0


def test_a_run_in_a_space_goes_on_where_it_was(psj: Psj, table: dict[str, Path]) -> None:
    masks = np.ones((40, 4))
    masks[::2, 1] = 0
    np.save(table["mask.npy"], masks)
    words = _words(table, "--columns", table["columns.json"], "--mask", table["mask.npy"], "--out", table["out"])
    assert psj(*words[:-1], 1).exit_code == 0
    with RunFolder.reading(table["out"]) as run:
        assert run.spec.space is not None
        assert run.spec.mask is not None
        assert run.finished() == [0]
        first = run.results([0])[0]
    again = psj(*words)
    assert again.exit_code == 0, again.output
    assert "2 to 3 of 4 features may change" in again.stdout
    resumed = psj("resume", table["out"], "--model", f"{table['model.py']}:model")
    assert resumed.exit_code == 0, resumed.output
    with RunFolder.reading(table["out"]) as run:
        assert run.finished() == [0, 1, 2]
        assert run.results([0])[0].arrays["point"].tobytes() == first.arrays["point"].tobytes()
    np.save(table["mask.npy"], np.ones((40, 4)))
    other = psj(*words)
    assert other.exit_code != 0
    assert "another spec" in " ".join(other.output.split())


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.float64])
def test_the_values_of_a_table_are_taken_as_they_are_whatever_their_type(
    psj: Psj, table: dict[str, Path], kind: type[Any]
) -> None:
    with np.load(table["table.npz"]) as arrays:
        rows, labels = np.floor(arrays["images"]).astype(kind), arrays["labels"]
    np.savez(table["table.npz"], images=rows, labels=labels)
    for more in ((), ("--out", table["out"])):
        result = psj(*_words(table, "--columns", table["columns.json"], *more))
        assert result.exit_code == 0, result.output
    with np.load(table["out"] / "points.npz") as arrays:
        assert arrays["originals"].tolist() == rows[:3].tolist()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--columns", "columns.json", "--scale", "range"), "leave out"),
        (("--columns", "none.json"), "cannot be read"),
        (("--columns", "columns.json", "--mask", "none.npy"), "cannot be read"),
        (("--columns", "columns.json", "--mask", "zeros.npy"), "no feature free"),
        (("--columns", "columns.json", "--mask", "two.npy"), "masks for 2 images"),
        (("--columns", "columns.json", "--scale", "wide"), "leave out"),
    ],
)
def test_bad_words_end_with_one_line(psj: Psj, table: dict[str, Path], words: tuple[str, ...], said: str) -> None:
    folder = table["out"].parent
    np.save(folder / "zeros.npy", np.zeros(4))
    np.save(folder / "two.npy", np.ones((2, 4)))
    full = [folder / word if "." in word else word for word in words]
    result = psj(*_words(table, *full))
    assert result.exit_code == 2 or result.exit_code == 1
    assert said in " ".join(result.output.split())
    assert "Traceback" not in result.output


FRAMES = """
class Approval:
    classes_ = ["no", "yes"]

    def predict(self, rows):
        assert list(rows.columns) == ["age", "income", "rooms", "job"], rows.columns
        assert rows["rooms"].dtype.kind == "i" and set(rows["job"]) <= {"clerk", "nurse", "smith"}
        good = rows["income"] / 90 + rows["rooms"] / 9 + (rows["job"] == "nurse") > 1.2
        return good.map({True: "yes", False: "no"}).to_numpy()


def model():
    return Approval()
"""


@pytest.fixture
def words(tmp_path: Path, table: dict[str, Path]) -> dict[str, Path]:
    """The same table with a header, words and names of classes, and a classifier of frames."""
    pandas = pytest.importorskip("pandas")
    with np.load(table["table.npz"]) as arrays:
        rows, labels = arrays["images"], arrays["labels"]
    frame = pandas.DataFrame(rows, columns=["age", "income", "rooms", "job"]).astype({"age": int, "rooms": int})
    frame["job"] = np.array(["clerk", "nurse", "smith"])[rows[:, 3].astype(int)]
    frame["label"] = np.array(["no", "yes"])[labels]
    frame["target"] = np.array(["yes", "no"])[labels]
    frame.to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "model.py").write_text(FRAMES)
    return {**table, "table.csv": tmp_path / "table.csv"}


@pytest.mark.parametrize("more", [(), ("--columns", "columns.json"), ("--scale", "std"), ("--targeted",)], ids=str)
def test_a_table_with_a_header_is_attacked_as_frames_and_comes_back_as_one(
    psj: Psj, words: dict[str, Path], more: tuple[str, ...]
) -> None:
    pandas = pytest.importorskip("pandas")
    full = [words["columns.json"] if word == "columns.json" else word for word in more]
    model = ("--model", f"{words['model.py']}:model", "--data", words["table.csv"])
    result = psj("attack", *model, "--out", words["out"], *full, *QUICK)
    assert result.exit_code == 0, result.output
    assert "of 4 features may change" in result.stdout
    before, after = pandas.read_csv(words["table.csv"])[:3], pandas.read_csv(words["out"] / "points.csv")
    assert list(after.columns) == ["row", "age", "income", "rooms", "job"]
    assert after["rooms"].dtype.kind == "i"
    assert (before["age"] == after["age"]).all() == ("--columns" in more)
    assert not before["income"].equals(after["income"])
    assert json.loads((words["out"] / "report.json").read_text())["spec"]["space"]["names"][3] == "job"


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        ("", (), "no table with a header"),
        ("a,b\n1,2\n", (), "no column 'label'"),
        ("a,label\n", (), "no rows"),
        ("a,label\n1,no\n2,yes\n", ("--bounds", 0, 5), "leave out --bounds"),
        ("a,label\n1,no\n2,perhaps\n", ("--starts", "noise"), "'perhaps', which is not among the classes"),
        ("a,label\n1,no\n2,yes\n", ("--workers", 2, "--out", "kept"), "nor a .csv file"),
    ],
)
def test_a_bad_table_ends_with_one_line(
    psj: Psj, words: dict[str, Path], content: str, more: tuple[Any, ...], said: str
) -> None:
    words["table.csv"].write_text(content)
    full = [words["out"] if word == "kept" else word for word in more]
    result = psj("attack", "--model", f"{words['model.py']}:model", "--data", words["table.csv"], *full, *QUICK)
    assert result.exit_code != 0
    assert said in " ".join(result.output.split())
    assert "Traceback" not in result.output
