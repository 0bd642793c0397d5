"""Random crops, judged by the majority of all crops: PSJ sees single crops, HSJ attacks the majority itself.

python benchmarks/cropping.py --images 100 --sizes 26 --keep DIR
python benchmarks/cropping.py --why --images 25 --sizes 26 --keep DIR   # what PSJ's distance comes from

Cropping moves the border: most answers are those of another classifier, the majority of all crops, whose
probabilities are exact. HSJ attacks that majority without noise. All distances are to the majority's border.
"psj-capped" has no budget but all of its 32 iterations, of at most 1,000 directions and 100 queries a search.
`--why` puts exact parts into PSJ, follows the cosine of its directions, and tries other radii and caps.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import command, correct_images, embedded_pool, header, markdown, save
from cropping_probe import Crops, Probed
from torch import Tensor

import popskipjump as psj
from popskipjump.metrics import MajorityClassifier, majority_border

RESAMPLES, LEVEL = 2_000, 0.95
CAPPED = psj.PopSkipJump(count=psj.DirectionCount(limit=1_000), search_limit=100)  # all 32 iterations, no budget
PARTS: dict[str, dict[str, Any]] = {  # PSJ with the caps, and what differs
    "psj-capped": {},
    "psj-exact-border": {"exact_border": True},
    "psj-exact-direction": {"exact_direction": True},
    "psj-exact": {"exact_border": True, "exact_direction": True},
}
SETTINGS = {
    "psj-beta-30": replace(CAPPED, beta=1 / 30),
    "psj-4-caps": replace(CAPPED, count=psj.DirectionCount(limit=4_000), search_limit=400),
}
SHOTS, SHOT_IMAGES = "psj-shots", 5
WHAT = {
    "hsj": "HSJ on the majority of all crops, no noise",
    "psj-capped": "PSJ, single crops",
    "psj-exact-border": "the same, its border put where half of the crops change",
    "psj-exact-direction": "the same, its directions the exact normals",
    "psj-exact": "both exact",
    "qsj": "QSJ, single crops",
    "psj-beta-30": "PSJ, single crops, directions 3.3 times as long",
    "psj-4-caps": "PSJ, single crops, 4 times the caps",
}
WITHIN = 1.15  # a ratio of medians that counts as being as near
CAPS = "PSJ has at most 1,000 directions an iteration and 100 queries a search; beta-30: directions 3.3 times as long."
TOGETHER = 25  # images attacked together, and kept together with --keep


def median_ratio(above: np.ndarray, below: np.ndarray) -> tuple[float, float, float]:
    """The ratio of two medians over the same images, with a bootstrap interval."""
    drawn = np.random.default_rng(0).integers(len(above), size=(RESAMPLES, len(above)))
    ratios = np.median(above[drawn], axis=1) / np.median(below[drawn], axis=1)
    low, high = np.quantile(ratios, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(np.median(above) / np.median(below)), float(low), float(high)


def attack_of(name: str, crops: Crops) -> str | Probed:
    """The attack of a name, PSJ with its directions recorded."""
    if name in PARTS:
        return Probed(CAPPED, crops, **PARTS[name])
    if name in SETTINGS:
        return Probed(SETTINGS[name], crops)
    return Probed(CAPPED, crops, shots=True) if name == SHOTS else name


def found_by(
    name: str, model: psj.TorchModel, noise: psj.noise.Cropping, batch: np.ndarray, labels: np.ndarray, budget: int
) -> dict[str, np.ndarray]:
    """Distances `(B,)` of one attack, to the majority's border and to that of the half, queries, and its record."""
    on_majority = name == "hsj"
    crops = Crops(model, noise.size)
    attack = attack_of(name, crops)
    settings = {"starts": embedded_pool(), "budget": None if name.startswith("psj-") else budget}
    attacked = MajorityClassifier(model, noise) if on_majority else model
    report = psj.evaluate(attacked, batch, labels, attack, None if on_majority else noise, **settings)  # type: ignore[arg-type]
    original, points, truth = (torch.from_numpy(array) for array in (batch, report.points, labels))
    border = majority_border(model, noise, original, points, truth).distance.double().numpy()
    half = half_border(crops, original, points, truth)
    found = {"distance": border, "half": half, "queries": np.asarray(report.queries)}
    return found | ({"record": attack.recorded()} if isinstance(attack, Probed) else {})


def half_border(crops: Crops, original: Tensor, points: Tensor, labels: Tensor) -> np.ndarray:
    """Distance `(B,)` on the rays of points, taken 1.3 times as long, to where half of the crops are adversarial."""
    flat = original.flatten(1)
    outer = (flat + 1.3 * (points.flatten(1) - flat)).clamp(0, 1)
    place = crops.crossing(outer, flat, labels, tuple(original.shape[1:]))
    return np.asarray(((1 - place) * (outer - flat).norm(dim=1)).numpy())


def images_of(size: int, images: int, model: psj.TorchModel) -> tuple[np.ndarray, np.ndarray]:
    """The first embedded images that the network and the majority of crops get right."""
    batch, labels = correct_images(2 * images)
    said = MajorityClassifier(model, f"cropping:{size}").labels(torch.from_numpy(batch))
    right = (said == torch.from_numpy(labels)).numpy()
    return batch[right][:images], labels[right][:images]


def parts_of(
    size: int, images: int, budget: int, keep: Path | None, names: list[str]
) -> dict[str, dict[str, np.ndarray]]:
    """What each attack found on the images; parts of `TOGETHER` images are kept."""
    model, noise = psj.TorchModel(psj.zoo.mnist_model(), optimize=True), psj.noise.Cropping(size)
    batch, labels = images_of(size, images, model)
    parts: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in names}
    for first in range(0, len(batch), TOGETHER):
        some = slice(first, first + TOGETHER)
        for name, found in parts.items():
            file = None if keep is None else keep / f"cropping-{size}-{name}-{budget}-{first}-{len(batch[some])}.npz"
            if file is not None and file.is_file():
                with np.load(file, allow_pickle=False) as archive:
                    found.append(dict(archive))
                continue
            found.append(found_by(name, model, noise, batch[some], labels[some], budget))
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                np.savez(file, **found[-1])  # type: ignore[arg-type]  # its stub takes the names for options
            print(f"{name}, from {first} on: {np.median(found[-1]['distance']):.3f}", flush=True)
    return {
        name: {key: np.concatenate([one[key] for one in found]) for key in found[0]} for name, found in parts.items()
    }


def row_of(size: int, images: int, budget: int, keep: Path | None, rivals: list[str]) -> list[object]:
    """Both attacks on the images that the majority of crops gets right."""
    found = parts_of(size, images, budget, keep, ["hsj", *rivals])
    distances = {name: one["distance"] for name, one in found.items()}
    asked = {name: np.median(one["queries"]) for name, one in found.items()}
    known = np.isfinite(np.stack(list(distances.values()))).all(axis=0)
    cells = [f"{np.median(distances[name][known]):.3f} @ {asked[name]:,.0f}" for name in ("hsj", *rivals)]
    for name in rivals:
        value, low, high = median_ratio(distances[name][known], distances["hsj"][known])
        cells.append(f"{value:.3f} [{low:.3f}, {high:.3f}]")
    return [size, int(known.sum()), *cells]


def verdict(rivals: list[str], rows: list[list[object]]) -> str:
    """Whether the medians of each rival stay within the limit."""
    words = []
    for row in rows:
        for name, ratio in zip(rivals, row[-len(rivals) :], strict=True):
            within = "yes" if float(str(ratio).split()[0]) <= WITHIN else "no"
            words.append(f"{name} within {WITHIN} of HSJ at crops of {row[0]} pixels: **{within}**")
    return "; ".join(words) + f". {CAPS}"


def why(size: int, images: int, budget: int, keep: Path | None) -> str:
    """What PSJ's distance comes from: exact parts, other settings, its directions one by one."""
    variants = ["hsj", *PARTS, "qsj", *SETTINGS]
    shots = parts_of(size, min(images, SHOT_IMAGES), budget, keep, [SHOTS])[SHOTS]["record"]
    found = parts_of(size, images, budget, keep, variants)
    base = found["hsj"]["distance"]
    rows = []
    for name in variants:
        distance = found[name]["distance"]
        middle, low, high = median_ratio(distance, base)
        each, error = mean_ratio(distance, base)
        rows.append(
            [
                name,
                WHAT[name],
                f"{np.median(distance):.3f} @ {np.median(found[name]['queries']):,.0f}",
                f"{middle:.3f} [{low:.3f}, {high:.3f}]",
                f"{each:.3f} ± {error:.3f}",
                f"{np.median(distance / found[name]['half']):.3f}",
            ]
        )
    head = (
        "attack",
        "what it is",
        "L2 @ queries",
        "ratio of medians to HSJ's [95%]",
        "mean ratio to HSJ's",
        "majority's border / border of the half, on the same ray",
    )
    text = f"Crops of {size} pixels, {images} images. {in_words(found, shots)}\n\n{markdown(head, rows)}\n\n"
    for name in ("psj-capped", "psj-4-caps", "psj-beta-30"):
        text += f"Iterations of {name} (medians over the images):\n\n{followed(found[name]['record'])}\n\n"
    return text + f"Single directions, 1,000 each, at the exact border on PSJ's ray:\n\n{shot_table(shots)}\n"


def in_words(found: dict[str, dict[str, np.ndarray]], shots: np.ndarray) -> str:
    """The numbers of the tables that the explanation rests on."""
    base = found["hsj"]["distance"]
    each = {name: "{:.2f} ± {:.2f}".format(*mean_ratio(one["distance"], base)) for name, one in found.items()}
    last = found["psj-capped"]["record"]
    wanted, given, cosine = np.median(last[last[:, 0] == last[:, 0].max()][:, 2:5], axis=0)
    single = {part: np.median(shots[(shots[:, 2] == part) & (shots[:, 4] == 0)][:, 5]) for part in set(shots[:, 2])}
    exact = {part: np.median(shots[(shots[:, 2] == part) & (shots[:, 4] == 1)][:, 5]) for part in set(shots[:, 2])}
    return (
        f"Mean ratio to HSJ's distance on the majority, and its standard error: PSJ {each['psj-capped']}; its border "
        f"exact {each['psj-exact-border']}; its directions exact {each['psj-exact-direction']}; directions 3.3 times "
        f"as long {each['psj-beta-30']}; 4 times the caps {each['psj-4-caps']}; QSJ {each['qsj']}. In the last "
        f"iteration PSJ wants {wanted:,.0f} directions and gets {given:,.0f}, with a cosine of {cosine:.2f}.\n\n"
        f"On {len(set(shots[:, 1]))} of the images, 1,000 single crops asked at the exact border have a cosine of "
        f"{single[0.01]:.2f} with PSJ's radius, where exact answers have {exact[0.01]:.2f}; with 3.3 times the radius "
        f"{single[1 / 30]:.2f} and {exact[1 / 30]:.2f}. Around the border the share of adversarial crops rises slowly, "
        "and a short direction meets little of the rise: that is what costs PSJ its directions."
    )


def mean_ratio(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """The geometric mean of the ratios of each image, and its standard error."""
    logs = np.log(above / below)
    mean = float(np.exp(logs.mean()))
    return mean, mean * float(logs.std(ddof=1)) / len(logs) ** 0.5


def followed(record: np.ndarray) -> str:
    """Some iterations of a walk: medians over the images."""
    rows = []
    for iteration in (1, 2, 4, 8, 16, 32):
        now = record[record[:, 0] == iteration]
        wanted, given, cosine, offset, _ = np.median(now[:, 2:], axis=0)
        capped = float((now[:, 2] > now[:, 3]).mean())
        row = [iteration, f"{wanted:,.0f}", f"{given:,.0f}", f"{capped:.0%}", f"{cosine:.3f}"]
        rows.append([*row, f"{offset:+.3f}", f"{np.median(abs(now[:, 5])):.3f}"])
    columns = ("iteration", "directions wanted", "given", "capped", "cosine to the exact normal")
    return markdown((*columns, "border found / exact, minus 1", "its size"), rows)


def shot_table(shots: np.ndarray) -> str:
    """Cosines of single directions, by the size of a coordinate."""
    rows = []
    for iteration in sorted(set(shots[:, 0])):
        for part in sorted(set(shots[:, 2])):
            these = shots[(shots[:, 0] == iteration) & (shots[:, 2] == part)]
            single, exact = (np.median(these[these[:, 4] == known][:, 5]) for known in (0, 1))
            rows.append(
                [int(iteration), f"1/{1 / part:.0f}", f"{single:.3f}", f"{exact:.3f}", f"{(exact / single) ** 2:.1f}"]
            )
    columns = ("iteration", "beta, of the line", "cosine, single crops", "cosine, half of the crops exactly")
    return markdown((*columns, "squared ratio"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--sizes", type=int, nargs="+", default=[26, 22])
    parser.add_argument("--budget", type=int, default=13_000)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--rivals", nargs="+", default=["psj", "psj-capped", "qsj"])
    parser.add_argument("--keep", type=Path, default=None, help="folder of finished parts; the same command goes on")
    parser.add_argument("--why", action="store_true", help="what PSJ's distance comes from")
    args = parser.parse_args()
    with psj.threads(1):
        if args.why:
            head = header("Why PSJ under random crops stays behind HSJ on their majority", command())
            save(args.out, "\n\n".join([head, *(why(s, args.images, args.budget, args.keep) for s in args.sizes)]))
            return
        names = [name.upper() for name in args.rivals]
        columns = ["crop", "images", "HSJ, majority of all crops", *(f"{name}, single crops" for name in names)]
        columns += [f"{name} / HSJ" for name in names]
        head = header("PSJ under random crops, beside HSJ on the majority of all crops", command())
        what = (
            "Median L2 distance to the majority's border @ median queries; ratios of medians, 95% bootstrap intervals."
        )
        rows = []
        for size in args.sizes:
            rows.append(row_of(size, args.images, args.budget, args.keep, args.rivals))
            text = f"{head}\n{what}\n\n{markdown(columns, rows)}\n\n{verdict(args.rivals, rows)}"
            save(args.out, text)


if __name__ == "__main__":
    main()
