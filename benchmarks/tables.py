"""Tables with rules: every query checked, flips against no noise, and ART's HopSkipJump with a mask beside ours.

    pip install "popskipjump[sklearn,art]"
    python benchmarks/tables.py --rows 10 --budget 1000 --art-iterations --out benchmarks/results/tables.md
    python benchmarks/tables.py --rows 10 --attacks --art-iterations 2 5 --out benchmarks/results/tables-art.md

Two tables of scikit-learn. "Breast cancer" has 30 numbers. "Mixed wine" is the wine table with rules of our own:
magnesium and proline are integers, hue is ordered (its quartiles, levels 0 to 3), ash is a category (its thirds, as a
code), colour intensity is a one-hot group (its quartiles, four columns), and alcohol is immutable. Distances are in
ranges of the features; a change of category counts 1. A model is asked through a recorder that checks every row.

Against ART, the ten "mean" columns of breast cancer are immutable. ART's attack has one number of queries per setting;
ours get the same number as their budget. All start from noise. ART keeps its own defaults but for `max_iter`. ART
returns the point after its last step, which lies behind the border: a second line adds a binary search to the original.
Its starting points come from a stream without a seed, so that its lines vary from run to run.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from common import command, header, markdown, save
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import popskipjump as psj

SEARCH = 15  # queries of a binary search
ALLOWED = 1.15  # distance with 5% flips over that without, geometric means


class Table(NamedTuple):
    """Rows with labels and rules; the first `train` rows are for training and for starting points."""

    rows: np.ndarray  # (N, D) float32
    labels: np.ndarray  # (N,)
    space: psj.Space
    train: int


def breast_cancer(immutable: tuple[int, ...] = ()) -> Table:
    """30 numbers, two classes."""
    rows, labels = load_breast_cancer(return_X_y=True)
    rows = rows.astype(np.float32)
    return Table(rows, labels, psj.Space.from_array(rows, immutable=immutable), 400)


def mixed_wine() -> Table:
    """The wine table with integers, categories and an immutable column; see the top of this file."""
    data = load_wine()
    column = dict(zip(data.feature_names, data.data.T, strict=True))

    def part(name: str, parts: int) -> np.ndarray:
        """Which quantile a value is in: 0 .. parts - 1."""
        edges = np.quantile(column[name], np.arange(1, parts) / parts)
        return np.asarray(np.searchsorted(edges, column[name]))

    table = {name: column[name] for name in data.feature_names if name != "color_intensity"}
    table["magnesium"], table["proline"] = np.round(column["magnesium"]), np.round(column["proline"])
    table["ash"], table["hue"] = part("ash", 3), part("hue", 4)
    colours = [f"colour_{i}" for i in range(4)]
    table |= dict(zip(colours, np.eye(4)[part("color_intensity", 4)].T, strict=True))
    rows = np.stack(list(table.values()), axis=1).astype(np.float32)
    space = psj.Space.from_array(
        rows,
        names=list(table),
        integer=["magnesium", "proline"],
        ordered={"hue": range(4)},
        categories={"ash": 3},
        onehot=[colours],
        immutable=["alcohol"],
    )
    order = np.random.default_rng(0).permutation(len(rows))
    return Table(rows[order], data.target[order], space, 120)


def classifiers() -> dict[str, Any]:
    """Three kinds, not trained."""
    return {
        "random forest": RandomForestClassifier(50, random_state=0),
        "gradient boosting": GradientBoostingClassifier(n_estimators=50, random_state=0),
        "pipeline (scaler, logistic)": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    }


class Checked:
    """A classifier that checks and counts every row it is asked about."""

    def __init__(self, model: Any, space: psj.Space) -> None:
        self.model, self.space, self.count = model, space, 0

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Labels."""
        self.space.check(rows, "asked rows")
        self.count += len(rows)
        return np.asarray(self.model.predict(rows))


def geometric(values: np.ndarray) -> float:
    """Geometric mean."""
    return float(np.exp(np.log(values).mean()))


def against_noise(args: argparse.Namespace) -> str:
    """Every table, model and attack with and without flips."""
    lines = []
    for name, table in {"breast cancer": breast_cancer(), "mixed wine": mixed_wine()}.items():
        train = slice(table.train)
        pool = psj.Pool(torch.from_numpy(table.rows[train]), torch.from_numpy(table.labels[train]))
        for kind, untrained in classifiers().items():
            model = untrained.fit(table.rows[train], table.labels[train])
            held = np.arange(table.train, len(table.rows))
            chosen = held[model.predict(table.rows[held]) == table.labels[held]][: args.rows]
            rows, labels = table.rows[chosen], table.labels[chosen]
            for attack in args.attacks:
                found, asked, right = [], 0, []
                for noise in (None, "flip:0.05"):
                    checked = Checked(model, table.space)
                    oracle = psj.FunctionModel(checked, classes=int(table.labels.max()) + 1)
                    report = psj.evaluate(
                        oracle, rows, labels, attack, noise, starts=pool, space=table.space, budget=args.budget
                    )
                    table.space.check(report.points, "returned rows")
                    if checked.count != report.queries.sum():
                        raise SystemExit("the ledger and the model disagree about the number of queries")
                    asked += checked.count
                    found.append(geometric(report.distances))
                    right.append(float((model.predict(report.points) != labels).mean()))
                ratio = found[1] / found[0]
                judged = "pass" if 1 / ALLOWED <= ratio <= ALLOWED else f"FAIL (must {ALLOWED})"
                cells = (
                    f"{found[0]:.3f}",
                    f"{found[1]:.3f}",
                    f"{ratio:.2f}",
                    judged,
                    f"{right[0]:.0%}, {right[1]:.0%}",
                )
                lines.append((name, kind, attack, *cells, f"{asked:,}"))
                print(*lines[-1], flush=True)
    columns = (
        "table",
        "model",
        "attack",
        "distance",
        "with 5% flips",
        "ratio",
        "goal",
        "adversarial",
        "queries checked",
    )
    return markdown(columns, lines)


def art_beside_ours(args: argparse.Namespace) -> str:
    """ART's HopSkipJump with `mask` and ours on one forest."""
    table = breast_cancer(tuple(range(10)))
    train = slice(table.train)
    forest = RandomForestClassifier(50, random_state=0).fit(table.rows[train], table.labels[train])
    held = np.arange(table.train, len(table.rows))
    chosen = held[forest.predict(table.rows[held]) == table.labels[held]][: args.rows]
    rows, labels, space = table.rows[chosen], table.labels[chosen], table.space
    lines = []
    for iterations in args.art_iterations:
        points, asked = _art(forest, rows, space, iterations)
        lines.append(_line(f"ART HopSkipJump, max_iter={iterations}", forest, space, rows, labels, points, asked))
        nearer = _searched(forest, rows, labels, points)
        asked += SEARCH
        lines.append(_line("the same, and a binary search", forest, space, rows, labels, nearer, asked))
        for attack in ("hsj", "psj", "qsj"):
            budget = int(asked)
            report = psj.evaluate(
                forest.predict, rows, labels, attack, space=space, budget=budget, iterations=None, verdict=0
            )
            name = f"ours, {attack}, budget {budget:,}"
            lines.append(_line(name, forest, space, rows, labels, report.points, float(report.queries.mean())))
    return markdown(("attack", "queries / row", "distance", "adversarial", "immutable kept", "within bounds"), lines)


def _line(
    name: str, forest: Any, space: psj.Space, rows: np.ndarray, labels: np.ndarray, points: np.ndarray, asked: float
) -> tuple[str, ...]:
    """A line of the table; distances are of the points that are adversarial."""
    good = forest.predict(points) != labels
    distance = geometric(space.distance(points[good], rows[good])) if good.any() else np.nan
    # to float32's last digits: ART's points are scaled forth and back
    kept = np.allclose(points[:, ~space.mask], rows[:, ~space.mask], rtol=1e-5)
    try:
        space.check(points)
        inside = "yes"
    except psj.InputError:
        inside = "no"
    line = (name, f"{asked:,.0f}", f"{distance:.3f}", f"{good.mean():.0%}", "yes" if kept else "no", inside)
    print(*line, flush=True)
    return line


def _art(forest: Any, rows: np.ndarray, space: psj.Space, iterations: int) -> tuple[np.ndarray, float]:
    """ART's points `(B, D)` in units of the inputs, and its queries per row; it works in ranges, as ours does."""
    from art.attacks.evasion import HopSkipJump
    from art.estimators.classification import BlackBoxClassifier

    count = 0

    def predict(scaled: np.ndarray) -> np.ndarray:
        nonlocal count
        count += len(scaled)
        return np.asarray(np.eye(2)[forest.predict((space.low + scaled * space.scale).astype(np.float32))])

    model = BlackBoxClassifier(predict, input_shape=(space.dimension,), nb_classes=2, clip_values=(0.0, 1.0))
    attack = HopSkipJump(model, targeted=False, max_iter=iterations, verbose=False)
    scaled = ((rows - space.low) / space.scale).astype(np.float32)
    np.random.seed(0)  # noqa: NPY002 - ART draws from the global stream
    found = attack.generate(scaled, mask=np.broadcast_to(space.mask, scaled.shape).astype(np.float32))
    if not np.allclose(found[:, ~space.mask], scaled[:, ~space.mask], rtol=0, atol=1e-6):
        print("ART changed a masked feature", flush=True)
    unchanged = int((found == scaled).all(axis=1).sum())
    if unchanged:
        print(f"ART returned {unchanged} of {len(rows)} rows as they were", flush=True)
    points = np.clip(space.low + found * space.scale, space.low, space.high)
    return points.astype(np.float32), count / len(rows)


def _searched(forest: Any, rows: np.ndarray, labels: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Points on the lines to the originals, as near as `SEARCH` halvings bring them: `(B, D)`."""
    near, far = np.zeros((len(rows), 1)), np.ones((len(rows), 1))
    for _ in range(SEARCH):
        middle = (near + far) / 2
        over = (forest.predict((rows + middle * (points - rows)).astype(np.float32)) != labels)[:, None]
        near, far = np.where(over, near, middle), np.where(over, middle, far)
    return np.asarray(rows + far * (points - rows), dtype=np.float32)


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--attacks", nargs="*", default=["psj", "qsj"], help="with and without flips; none skips this")
    parser.add_argument("--art-iterations", type=int, nargs="*", default=[2, 5], help="of ART; none skips this")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    text = header("Tables with rules", command())
    if args.attacks:
        text += "\n## Flips against no noise\n\n" + against_noise(args)
    if args.art_iterations:
        text += "\n## ART's HopSkipJump with a mask, and ours\n\n" + art_beside_ours(args)
    save(args.out, text)


if __name__ == "__main__":
    main()
