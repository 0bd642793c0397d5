"""The authors' setting of PSJ, and its place in table 1."""

from __future__ import annotations

from reproduce_toys import SETUP, evidence_of

import popskipjump as psj
from popskipjump.experiments.reproduce import EXPERIMENTS
from popskipjump.storage import AttackSpec


def test_the_authors_setting_differs_in_the_baseline_the_enlargement_and_the_grid_alone() -> None:
    changed = AttackSpec.of(psj.PopSkipJump.as_published()).changed()
    assert set(changed) == {"baseline", "enlarge", "slopes", "slope_range", "floors"}
    assert changed["enlarge"] == 1.5
    assert changed["baseline"] is False
    assert changed["floors"] == [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]


def test_changes_to_the_authors_setting_count() -> None:
    config = psj.PopSkipJump.as_published(iterations=3, enlarge=1.2)
    assert (config.iterations, config.enlarge, config.baseline) == (3, 1.2, False)


def test_the_authors_setting_attacks() -> None:
    images, labels = psj.zoo.mnist_images(1)
    report = psj.evaluate(
        psj.zoo.mnist_model(), images, labels, attack=psj.PopSkipJump.as_published(iterations=2), verdict=0
    )
    assert report.status[0].has_point


def test_table_1_has_the_authors_setting_beside_ours() -> None:
    table = EXPERIMENTS["table-1"].table(evidence_of(EXPERIMENTS["table-1"], lambda way: (2.0, 100), setup=SETUP))
    rows = [row for row in table.rows if row[1] == "PSJ, authors' setting"]
    assert [row[0] for row in rows] == ["0%", "5%", "10%"]
    assert [row[4] for row in rows] == [0.006, 0.006, 0.006]  # the paper's numbers are PSJ's
