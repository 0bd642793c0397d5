"""Where our PSJ departs from the paper's text: each choice beside the text's, on images that no report uses.

    python benchmarks/choices.py --images 60

Embedded images from number 500 on (the reports use the first 200). The differences are paired: the standard error is
that of the mean log-ratio of border distances to those of the default, over images.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from common import correct_images, embedded_pool, header, markdown

import popskipjump as psj

FIRST = 500
VARIANTS: dict[str, psj.AttackConfig] = {
    "default": psj.PopSkipJump(),
    "without the baseline (text)": psj.PopSkipJump(baseline=False),
    "line enlarged 1.5 times (text)": psj.PopSkipJump(enlarge=1.5),
    "E[n] over all parameters, n_t at most 2,000 (text)": psj.PopSkipJump(
        sample_size="posterior", count=psj.DirectionCount(limit=2_000)
    ),
    "n at the point estimate (text)": psj.PopSkipJump(sample_size="point"),
    "n at the mean signal": psj.PopSkipJump(sample_size="signal"),
    "no floor of n_t (text)": psj.PopSkipJump(at_least=0.0),
    "resolution 150": psj.PopSkipJump(resolution=150),
    "maximum a posteriori": psj.PopSkipJump(estimate="map"),
    "5 queries per step": psj.PopSkipJump(per_step=5),
    "5 queries per step within 90%": psj.PopSkipJump(per_step=5, spread_over=0.9),
    "shrinking priors": psj.PopSkipJump(shrink_priors=True),
    "HSJ": psj.HopSkipJump(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=60)
    parser.add_argument("--noise", default=None)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    args = parser.parse_args()
    torch.set_num_threads(1)
    x, y = correct_images(args.images, FIRST)
    model = psj.TorchModel(psj.zoo.mnist_model(), optimize=True)
    noise = f" --noise {args.noise}" if args.noise else ""
    print(header("Choices", f"python benchmarks/choices.py --images {args.images}{noise}"), flush=True)
    rows: list[tuple[object, ...]] = []
    reference: np.ndarray | None = None
    for name in args.variants:
        report = psj.evaluate(
            model, x, y, attack=VARIANTS[name], noise=args.noise, starts=embedded_pool(), verdict=0, keep_trace=False
        )
        border = np.asarray(report.border_distances)
        logs = np.log(border)
        reference = logs if reference is None else reference
        difference = logs - reference
        error = difference.std(ddof=1) / np.sqrt(len(difference))
        search, direction = (np.median(report.queries_by_phase[p]) for p in ("search", "direction"))
        rows.append(
            (
                name,
                f"{np.median(border):.3f}",
                f"{np.exp(logs.mean()):.3f}",
                f"{np.exp(difference.mean()):.3f} ± {error:.3f}",
                f"{np.median(report.queries):,.0f}",
                f"{search:,.0f}",
                f"{direction:,.0f}",
            )
        )
        print("|", " | ".join(map(str, rows[-1])), "|", flush=True)
    columns = ("variant", "median", "geometric mean", "ratio to the first", "queries", "search", "direction")
    print("\n" + markdown(columns, rows))


if __name__ == "__main__":
    main()
