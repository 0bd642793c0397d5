"""Tests of the claims: the numbers that are compared, and the limits."""

from __future__ import annotations

import numpy as np

from popskipjump.experiments.reproduce.base import Ask, Evidence, Setup, Way
from popskipjump.experiments.reproduce.caps import relief_of, wider
from popskipjump.experiments.reproduce.claims.rules import Comparison
from popskipjump.experiments.reproduce.claims.statistics import (
    at_least,
    at_most,
    mean_at_least,
    mean_at_most,
    price_of_votes,
    reached,
    risk_area,
)
from popskipjump.experiments.reproduce.figures.accuracy import AdversarialAccuracy
from popskipjump.experiments.reproduce.figures.levels import NoiseLevel
from popskipjump.experiments.reproduce.figures.noise_model import uncapped
from popskipjump.experiments.reproduce.figures.radius import radii
from popskipjump.experiments.reproduce.figures.radius import way_of as radius_way
from popskipjump.experiments.reproduce.figures.sample_factor import FACTORS
from popskipjump.experiments.reproduce.figures.sample_factor import way_of as factor_way
from popskipjump.experiments.reproduce.figures.sigmoids import GOOD, Sigmoids
from popskipjump.experiments.reproduce.figures.tables import FLIPS
from popskipjump.experiments.reproduce.figures.tables import way_of as table_way
from popskipjump.experiments.reproduce.figures.timing import QueriesAndTime
from popskipjump.experiments.reproduce.figures.votes import RADII, hsj_way, psj_way
from popskipjump.experiments.reproduce.figures.white_box import WhiteBox
from popskipjump.runs.data import RunData

KEPT = 1.10  # "unaffected", "on par", "independent": at most this many times the distance
BROKEN = 1.5  # "broken", "greatly deteriorate": at least this many times
SIMILAR = 1.25  # "similarly", "on par with white-box attacks"
FEW_MORE = 1.25  # "almost as query efficient", "converges to HSJ's query efficiency"
MUCH = 2.0  # "much more query efficient"
ORDERS = 100.0  # "several orders of magnitude"
MAJORITY = 1.15  # at the majority's border, PSJ without noise times this
GAP = 0.05  # accuracy: "well below" is more, "coincide" is less
OFFSET = 0.01  # accuracy at eta = 0: more than this does not coincide
ALMOST_ALL = 0.9
MORE_QUERIES = 100.0  # "(>= 100x) more queries"
SAME_BY_QUERY = 1.15  # "seems independent of r"
DEFENCES = ("dropout", "smoothing", "cropping")


def _flips(evidence: Evidence, attack: str, flips: int) -> RunData:
    return evidence[table_way(evidence.setup, attack, flips)]


def grows_with_flips(evidence: Evidence, attack: str, limit: float, *, kept: bool) -> list[Comparison]:
    """An attack's distance at each level of flips, relative to its own without noise."""
    rule = at_most if kept else at_least
    base = _flips(evidence, attack, 0).border_distances
    return [rule(f"{attack} at {f}%", _flips(evidence, attack, f).border_distances, base, limit) for f in FLIPS[1:]]


def alike_without_noise(evidence: Evidence) -> list[Comparison]:
    """PSJ, HSJ and HSJ with 3 votes, in both directions."""
    names = ("PSJ", "HSJ", "HSJ-repeat3")
    far = {name: _flips(evidence, name, 0).border_distances for name in names}
    pairs = [(a, b) for a in names for b in names if a != b]
    return [at_most(f"{a} / {b}", far[a], far[b], SIMILAR) for a, b in pairs]


def queries_like_hsj(evidence: Evidence, levels: tuple[int, ...], limit: float) -> list[Comparison]:
    """PSJ's queries, relative to HSJ's at the same level of flips."""
    asked = {(a, f): _flips(evidence, a, f).attack_queries for a in ("PSJ", "HSJ") for f in levels}
    return [at_most(f"queries at {f}%", asked["PSJ", f], asked["HSJ", f], limit) for f in levels]


def nearer_than_votes(evidence: Evidence) -> list[Comparison]:
    """PSJ's distance, relative to that of 3 votes after as many queries."""
    pairs = {f: (_flips(evidence, "PSJ", f), _flips(evidence, "HSJ-repeat3", f)) for f in FLIPS[1:]}
    return [
        at_most(f"at {f}%", psj.border_distances, reached(votes, psj.attack_queries), 1.0)
        for f, (psj, votes) in pairs.items()
    ]


def independent_of_radius(evidence: Evidence) -> list[Comparison]:
    """HSJ's distance at each radius, relative to that at 1/d."""
    first, *others = radii(evidence.setup)
    runs = {value: evidence[radius_way(evidence.setup, value)].border_distances for value in (first, *others)}
    return [at_most(f"radius {value:g}", runs[value], runs[first], KEPT) for value in others]


def _areas(evidence: Evidence, noise: str | None) -> np.ndarray:
    """HSJ's mean accuracy over all sizes minus PSJ's, image by image."""
    etas = AdversarialAccuracy().sizes(evidence)
    areas = {}
    for attack, way in (("psj", evidence.setup.psj(noise)), ("hsj", evidence.setup.hsj(noise))):
        clean, point = (evidence.measured[f"{attack} {noise or 'none'} {what}"] for what in ("clean", "point"))
        areas[attack] = risk_area(evidence[way].distances, clean, point, etas)
    gap: np.ndarray = areas["hsj"] - areas["psj"]
    return gap


def accuracy_below(evidence: Evidence) -> list[Comparison]:
    """Under every noise."""
    noises = [noise for noise in AdversarialAccuracy().noises(evidence.setup) if noise is not None]
    return [mean_at_least(noise, _areas(evidence, noise), GAP) for noise in noises]


def accuracy_coincides(evidence: Evidence) -> list[Comparison]:
    """Without noise, in both directions."""
    gap = _areas(evidence, None)
    return [mean_at_most("HSJ - PSJ", gap, GAP), mean_at_most("PSJ - HSJ", -gap, GAP)]


def accuracy_offsets(evidence: Evidence) -> list[Comparison]:
    """The largest loss of accuracy at eta = 0."""
    noises = [noise for noise in AdversarialAccuracy().noises(evidence.setup) if noise is not None]
    lost = np.stack([evidence.measured["psj none clean"] - evidence.measured[f"psj {n} clean"] for n in noises])

    def largest(images: np.ndarray) -> float:
        return float(lost[:, images].mean(axis=1).max())

    return [Comparison("largest loss at eta = 0", lost.shape[1], largest, OFFSET, at_most=False)]


def on_par_by_iteration(evidence: Evidence) -> list[Comparison]:
    """PSJ at every level of one noise model, after some iterations, relative to HSJ without noise."""
    setup = evidence.setup
    base, last = evidence[setup.hsj()], setup.size.iterations
    ((_, levels),) = NoiseLevel().models(setup).items()
    tests = [
        at_most(f"{n}, iteration {t}", evidence[setup.psj(n)].trace_border[t], base.trace_border[t], KEPT)
        for n in levels
        for t in sorted({max(1, last // 4), max(1, last // 2), last})
    ]
    return [
        t._replace(relief=relief(evidence, t.name.partition(",")[0]) if t.name.endswith(f" {last}") else None)
        for t in tests
    ]


def converges_to_hsj(evidence: Evidence) -> list[Comparison]:
    """Queries without noise; distance after as many queries; queries that fall with the noise."""
    setup = evidence.setup
    psj, hsj = evidence[setup.psj()], evidence[setup.hsj()]
    ((_, levels),) = NoiseLevel().models(setup).items()
    weak, strong = (evidence[setup.psj(level)].attack_queries for level in (levels[0], levels[-1]))
    return [
        at_most("queries, no noise", psj.attack_queries, hsj.attack_queries, FEW_MORE),
        at_most("distance after as many queries", psj.border_distances, reached(hsj, psj.attack_queries), KEPT),
        at_most("queries, weakest / strongest noise", weak, strong, 1.0),
        at_most("queries, no / weakest noise", psj.attack_queries, weak, 1.0),
    ]


def relief(evidence: Evidence, noise: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Border distances under the caps and under wider ones, on the images of the check."""
    if relief_of(evidence, noise) is None:
        return None
    wide = evidence[wider(evidence.setup, noise)].border_distances
    return evidence[evidence.setup.psj(noise)].border_distances[: len(wide)], wide


def _strongest(evidence: Evidence) -> list[str]:
    return [levels[-1] for levels in evidence.setup.levels().values()]


def same_under_every_model(evidence: Evidence) -> list[Comparison]:
    """PSJ at the strongest level of each model, relative to its own without noise, on the base network."""
    base = evidence[evidence.setup.psj()].border_distances
    return [_kept(evidence, n, base) for n in _strongest(evidence)]


def _kept(evidence: Evidence, noise: str, base: np.ndarray) -> Comparison:
    """PSJ's distance under a noise, relative to a base."""
    far = evidence[evidence.setup.psj(noise)].border_distances
    return at_most(noise, far, base, KEPT)._replace(relief=relief(evidence, noise))


def same_by_the_majority(evidence: Evidence) -> list[Comparison]:
    """The same at the border of the most frequent answer."""
    base = evidence[evidence.setup.psj()].border_distances
    tests = []
    for noise in _strongest(evidence):
        far, wide = evidence.measured[noise], evidence.measured.get(uncapped(noise))
        tests.append(at_most(noise, far, base, MAJORITY))
        if wide is not None:
            tests[-1] = tests[-1]._replace(relief=(far[: len(wide)], wide))
    return tests


def hsj_fails(evidence: Evidence) -> list[Comparison]:
    """HSJ at the weakest level of each model, relative to its own without noise."""
    base = evidence[evidence.setup.hsj()].border_distances
    weakest = [levels[0] for levels in evidence.setup.levels().values()]
    return [at_least(n, evidence[evidence.setup.hsj(n)].border_distances, base, BROKEN) for n in weakest]


def defences_do_not_help(evidence: Evidence) -> list[Comparison]:
    """PSJ on every defence at every level, relative to HSJ on the base network."""
    setup, base = evidence.setup, evidence[evidence.setup.hsj()].border_distances
    noises = [n for name, levels in setup.levels().items() if name in DEFENCES for n in levels]
    return [_kept(evidence, n, base) for n in noises]


def votes_cost(evidence: Evidence, radii_: tuple[str, ...], limit: float) -> list[Comparison]:
    """Queries of HSJ-r over PSJ's at equal distance, at every temperature."""
    setup, tests = evidence.setup, []
    for radius in radii_:
        for t in setup.size.votes_temperatures:
            psj = evidence[psj_way(setup, t)]
            tried = [evidence[hsj_way(setup, t, radius, votes)] for votes in setup.size.votes]
            price = price_of_votes(psj, tried, limit)
            tests.append(Comparison(f"{radius}, T = {t:g}", len(psj.image_ids), price, limit, at_most=False))
    return tests


def radius_helps_votes(evidence: Evidence) -> list[Comparison]:
    """HSJ-r with PSJ's radius, relative to HSJ-r with its own, with the most votes."""
    setup, most = evidence.setup, evidence.setup.size.votes[-1]
    found = []
    for t in setup.size.votes_temperatures:
        own, wide = (evidence[hsj_way(setup, t, radius, most)].border_distances for radius in RADII)
        found.append(at_most(f"T = {t:g}", wide, own, 1 / BROKEN))
    return found


def near_white_box(evidence: Evidence) -> list[Comparison]:
    """PSJ, relative to the nearer of PGD and Brendel-Bethge on each image."""
    entries = WhiteBox().entries(evidence)
    rivals = np.stack([values for name, values in entries.items() if not name.startswith("PSJ")]).min(axis=0)
    temperatures = evidence.setup.size.levels.temperatures
    return [at_most(f"T = {t:g}", entries["PSJ"][i], rivals[i], SIMILAR) for i, t in enumerate(temperatures)]


def lines_are_sigmoids(evidence: Evidence) -> list[Comparison]:
    """Share of each image's search lines that a sigmoid fits."""
    good = np.array([[fit.gap <= GOOD for fit in stage] for stage in Sigmoids().fits(evidence)], dtype=float)
    return [mean_at_least("share of lines", good.mean(axis=0), ALMOST_ALL)]


def more_directions(evidence: Evidence, *, by_query: bool) -> list[Comparison]:
    """HSJ with r times its directions: better by iteration, no better by query."""
    runs = {f: evidence[factor_way(evidence.setup, f)] for f in FACTORS}
    first = runs[1]
    if not by_query:
        return [at_most("r = 5 / r = 1", runs[FACTORS[-1]].border_distances, first.border_distances, 1.0)]
    same = {f: reached(run, first.attack_queries) for f, run in runs.items()}
    there = [at_most(f"r = {f} / r = 1", same[f], same[1], SAME_BY_QUERY) for f in FACTORS[1:]]
    return there + [at_most(f"r = 1 / r = {f}", same[1], same[f], SAME_BY_QUERY) for f in FACTORS[1:]]


def gradient_takes_more_queries(evidence: Evidence) -> list[Comparison]:
    """Queries of the gradient estimate, relative to the search's, under strong noise."""
    parts = {n: [evidence.measured[f"{n} {p} queries"] for p in ("direction", "search")] for n in _timed(evidence)}
    return [at_least(n, direction, search, MORE_QUERIES) for n, (direction, search) in parts.items()]


def _timed(evidence: Evidence) -> list[str]:
    return QueriesAndTime().noises(evidence.setup)


def trick_changes_queries(evidence: Evidence, trick: str, *, more: bool) -> list[Comparison]:
    """Queries of the search with an acceleration trick, relative to no trick."""
    rule = at_least if more else at_most
    searches = [evidence.measured[f"{name} search queries"] for name in (trick, "no trick")]
    return [rule("queries of the search", searches[0], searches[1], 1.0)]


ACQUISITION_NOISES = ("flip:0.1", "logit:1")


def acquisition_asks(setup: Setup) -> list[Ask]:
    """PSJ with both acquisition functions."""
    images = setup.images(setup.size.images)
    return [
        Ask(acquisition_way(setup, n, kind), images)
        for n in ACQUISITION_NOISES
        for kind in ("information", "sample-size")
    ]


def acquisition_way(setup: Setup, noise: str, kind: str) -> Way:
    """PSJ with one acquisition function."""
    return setup.psj(noise, acquisition=kind)


def information_is_best(evidence: Evidence) -> list[Comparison]:
    """The distance with mutual information, relative to expected sample size after as many queries."""
    tests = []
    for noise in ACQUISITION_NOISES:
        ours, other = (evidence[acquisition_way(evidence.setup, noise, k)] for k in ("information", "sample-size"))
        tests.append(at_most(noise, ours.border_distances, reached(other, ours.attack_queries), 1.0))
    return tests
