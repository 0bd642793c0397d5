"""Small mistakes that the tests must notice.

    python benchmarks/mutations.py
    python benchmarks/mutations.py --only attacks/steps metrics

Each mutation replaces one line of a copy of the source tree, never of the tree itself, and runs the few tests that are
named with it. A mutation that no test notices survives: its name is printed, and the exit code is 1. The tests first
run on the unchanged copy, where they must pass. Needs a system with `os.fork`: torch is loaded once for all runs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 120  # of the processor, for the tests of one mutation: one that makes a test loop is noticed by its clock
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout")
NO_TESTS = (4, 5)  # exit codes of pytest


class Mutation(NamedTuple):
    """A mistake, and who should notice it."""

    file: str  # below src/popskipjump
    old: str  # occurs once in the file
    new: str
    tests: tuple[str, ...]  # below tests, as pytest names them

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.file}: {self.old.strip()!r} -> {self.new.strip()!r}"


def _of(file: str, tests: str, *changes: tuple[str, str, str]) -> list[Mutation]:
    """Mutations of one file, each with the tests of one test file that should notice it, apart by spaces."""
    return [
        Mutation(file, old, new, tuple(f"{tests}::test_{name}" for name in names.split()))
        for old, new, names in changes
    ]


MUTATIONS = [
    *_of(
        "attacks/steps/arc.py",
        "unit/attacks/test_arc_step.py",
        (
            "keep = remeasure | (problem.on_cpu(gradient.abs().amax(dim=1)) == 0)",
            "keep = remeasure",
            "without_a_direction_the_ray_itself_is_measured_again",
        ),
        (
            "rate = self.rate / (1 + (error / self.error_scale) ** 2)",
            "rate = self.rate * torch.ones_like(error)",
            "a_measurement_counts_less_the_less_is_known_of_its_distance",
        ),
        (
            "tolerance = (_PRECISE * turned**2).clamp(_FINEST, self.roughest)",
            "tolerance = torch.full_like(turned, self.roughest)",
            "the_next_search_is_as_precise_as_what_the_turn_can_gain",
        ),
        (
            "best = torch.where(found.seen, best, 0.0)",
            "best = best + 0.0",
            "a_step_that_met_no_border_counts_as_an_angle_of_nothing",
        ),
        (
            "best = torch.where(turned > 0, best, angle)",
            "best = best + 0.0",
            "measuring_again_teaches_no_angle",
        ),
        (
            "torch.where(keep, _REMEASURED * (self.margin - 1) + 1, self.margin)",
            "torch.where(keep, self.margin, self.margin)",
            "on_request_the_ray_itself_is_measured_again",
        ),
    ),
    *_of(
        "attacks/steps/straight.py",
        "unit/attacks/test_straight_steps.py",
        ("            step = step / 2", "            step = step * 1", "a_step_is_halved_until_it_ends_adversarial"),
        ("border.distance / math.sqrt(iteration)", "border.distance", "a_step_is_the_distance_over_the_root"),
    ),
    *_of(
        "attacks/acceptance/if_nearer.py",
        "unit/attacks/test_accept_if_nearer.py",
        (
            "torch.sqrt(found.deviation**2 + state.deviation**2)",
            "found.deviation",
            "the_deviation_of_the_kept_border_counts_as_well",
        ),
        (
            "kept = torch.where(take, found.deviation, state.deviation)",
            "kept = found.deviation",
            "a_refused_border_leaves_the_deviation_of_the_kept_one",
        ),
        ("take = repeated | (nearer & found.seen)", "take = repeated | nearer", "a_border_that_was_not_seen"),
        ("refused >= self.patience", "refused > self.patience", "after_some_refusals_in_a_row"),
    ),
    *_of(
        "attacks/acceptance/unless_faint.py",
        "unit/attacks/test_unless_faint.py",
        ("self.patience - 1)", "0)", "a_first_line_that_is_faint_ends_the_image"),
        ("< _FAINT) & ~border.settled", "< _FAINT)", "a_line_is_faint_if_an_unsettled_search"),
    ),
    *_of(
        "attacks/directions/adaptive/radius.py",
        "unit/attacks/test_adaptive_radius.py",
        (
            "torch.minimum(self.broad * width, room)",
            "torch.minimum(self.reach + 0 * width, room)",
            "where_the_transition_is_wide_the_limit_is_some_of_its_widths",
        ),
        ("(scale * self.radius) ** 2", "self.radius ** 2", "directions_that_were_too_long_are_scaled_down"),
        ("torch.minimum(self.broad * width, room)", "self.broad * width", "no_direction_is_so_long"),
    ),
    *_of(
        "attacks/directions/adaptive/count.py",
        "unit/attacks/test_gain_optimal_count.py",
        ("most if iteration > 1 else _SEARCH_AT_FIRST", "most", "a_search_counts_within_limits"),
        ("torch.minimum(_SIGNS * wanted, limit)", "wanted", "where_every_value_counts_there_are_four_times"),
        ("torch.minimum(_SIGNS * wanted, limit)", "_SIGNS * wanted", "where_every_value_counts_early_iterations"),
        (
            "late = self.gradual_growth * max(iteration - _EARLY, 0) * gradualness(width)",
            "late = self.gradual_growth * iteration * gradualness(width)",
            "on_a_gradual_border_late_iterations",
        ),
    ),
    *_of(
        "attacks/directions/adaptive/estimator.py",
        "unit/attacks/test_adaptive_directions.py",
        (
            "seen = spread * within_bounds(border.point, per_row(problem.on_device(size)) * spread, problem.bounds)",
            "seen = spread * 1.0",
            "evidence_of_coin_flips_has_the_variance_that_it_claims",
        ),
        (
            "across = self.tangential and problem.norm.has_tangent",
            "across = self.tangential",
            "directions_lie_across_the_ray_where_a_norm_has_a_tangent",
        ),
        (
            "spread = envelope(basis, change) if self.local else torch.ones_like(change)",
            "spread = torch.ones_like(change)",
            "directions_are_strong_where_the_input_was_changed",
        ),
        (
            "centre = centre.corrected(imbalance, count > 0, self.centring)",
            "centre = centre.corrected(imbalance, count > 0, 0.0)",
            "the_centre_moves_out_until_half_of_the_answers_are_adversarial",
        ),
    ),
    *_of(
        "attacks/directions/adaptive/sampling.py",
        "unit/attacks/test_adaptive_directions.py",
        ("problem.on_device(-total / n)", "problem.on_device(-0 * total / n)", "evidence_of_coin_flips"),
    ),
    *_of(
        "attacks/directions/adaptive/centring.py",
        "unit/attacks/test_centre_shift.py",
        ("torch.where(jumped, 0.5, 1.5)", "torch.where(jumped, 1.0, 1.5)", "a_jump_from_one_side_to_the_other"),
        ("_RECOVER * self.scale)", "self.scale)", "short_directions_recover_by_fifteen_percent"),
        ("(self.shift.abs() > far)", "(self.shift.abs() > 0)", "directions_that_no_shift_can_balance_become_shorter"),
    ),
    *_of(
        "attacks/directions/adaptive/active_bounds.py",
        "unit/attacks/test_active_bounds.py",
        ("alpha=self.decay**2", "alpha=self.decay", "earlier_sums_decay_and_their_variances"),
        (".mul_(low - high)", ".mul_(low + high)", "what_points_outward_is_asked_less"),
        ("/ problem.dimension - 1)", "/ problem.dimension)", "scores_as_large_as_chance"),
    ),
    *_of(
        "attacks/directions/adaptive/spectrum_prior.py",
        "unit/attacks/test_adaptive_directions.py",
        ("(1 - gradualness(width))", "(1 + 0 * width)", "the_prior_of_a_spectrum_does_not_fade"),
        ("torch.where(compared, self.trust, self.", "torch.where(~compared, self.trust, self.", "the_prior_is_trusted"),
    ),
    *_of(
        "attacks/directions/adaptive/spectrum.py",
        "unit/attacks/test_spectrum.py",
        ("self.noise, alpha=decay**2", "self.noise, alpha=decay", "old_evidence_fades"),
        ("variance = share.clamp(min=least)", "variance = share", "directions_have_length_one_and_no_frequency"),
        (
            "fits.add_(_likely_strengths(strengths, expected_strength).log_().unsqueeze(2))",
            "fits.add_(0.0)",
            "where_strong_answers_are_expected_a_wrong_first_change_is_unlearned_sooner",
        ),
    ),
    *_of(
        "attacks/directions/adaptive/rival_weights.py",
        "unit/attacks/test_rival_weights.py",
        ("* total / (total + _ENOUGH)", "", "a_handful_of_answers_decides_less_than_many"),
        ("(gini - self.few)", "(gini - 0.0)", "a_few_stray_answers_change_nothing"),
    ),
    *_of(
        "attacks/directions/monte_carlo.py",
        "unit/attacks/test_direction_estimate.py",
        ("torch.where(mean.abs() < 1, mean, 0.0)", "mean", "equal_answers_have_no_baseline"),
        ("counts = torch.minimum(counts, affordable_directions(problem, border))", "pass", "a_direction_leaves_the"),
    ),
    *_of(
        "attacks/searches/warm.py",
        "unit/attacks/test_warm_started_search.py",
        ("_NEARLY = 0.8", "_NEARLY = 1.0", "several_queries_of_one_step_are_spread_over_places"),
        ("channels = self.config.keep * last", "channels = last", "the_last_belief_matters_as_far_as_it_is_kept"),
        (
            "~short_of_end & (alone | ~to_end)",
            "~short_of_end & alone",
            "a_border_nearer_than_the_window_is_searched_for_on_the_rest_of_the_line",
        ),
        (
            "np.minimum(gradual, self.config.max_relative_error * distance)",
            "gradual",
            "however_wide_a_transition_its_place_is_known_to_a_part_of_the_distance",
        ),
    ),
    *_of(
        "attacks/searches/bayesian.py",
        "unit/attacks/test_bayesian_search.py",
        ("self.ratio[who] = torch.maximum(ratio, least)", "self.ratio[who] = ratio", "without_noise_the_sample_ratio"),
        ("self.safe[who] = torch.minimum(safe, centre)", "self.safe[who] = centre", "more_confidence_is_a_safer"),
        ("part = 1 / min(max(self.iteration, 1), 10)", "part = 1.0", "a_shrunken_prior_keeps_a_part_of_the_line"),
    ),
    *_of(
        "attacks/searches/bisection.py",
        "unit/attacks/test_binary_search.py",
        ("gap / 2, low > 0,", "gap / 2, low >= 0,", "a_border_is_seen_if_anything_within_the_line_was_adversarial"),
    ),
    *_of(
        "attacks/starts/restart.py",
        "unit/attacks/test_restart.py",
        ("(state.made < self.limit)", "(state.made < 99)", "an_image_that_cannot_be_helped_is_not_helped_for_ever"),
        ("_OUTWARD = (1.6, 2.5)", "_OUTWARD = ()", "an_image_that_has_come_too_near_finds_the_border"),
        ("tolerance[new])", "tolerance[: len(new)])", "a_new_line_is_searched_as_a_whole_with_the_tolerance"),
    ),
    *_of(
        "attacks/starts/patterns.py",
        "unit/attacks/test_pattern_start.py",
        ("_LEAD if attempt or known else 1", "1", "where_nothing_helps_a_line_costs_two_queries"),
        ("not problem.criterion.targeted)", "True)", "it_tells_whether_several_starts_were_compared"),
    ),
    *_of(
        "attacks/border.py",
        "unit/attacks/test_boundary_walk.py",
        ("._replace(width=new.width, lost=new.lost)", "", "a_refused_border_still_tells_how_wide"),
    ),
    *_of(
        "attacks/walk.py",
        "unit/attacks/test_boundary_walk.py",
        (
            "merge(decision.take & ~broke, found, border)",
            "merge(decision.take, found, border)",
            "a_search_that_the_budget",
        ),
        ("step = self.step_rule.learn(problem, border, found, move, state.step)", "step = state.step", "an_arc_learns"),
    ),
    *_of(
        "attacks/rows.py",
        "unit/attacks/test_rows.py",
        ("if value is None or new is None:", "if value is None:", "a_field_that_either_side_lacks_stays_as_it_is"),
    ),
    *_of(
        "attacks/settle/belief.py",
        "unit/attacks/test_settle_belief.py",
        (
            "torch.xlogy((asked - yes).unsqueeze(1), 1 - p)",
            "torch.xlogy((asked - yes).unsqueeze(1), p)",
            "answers_move_the_belief_to_their_side",
        ),
        ("(p > 0.5)).sum(dim=1)", "(p < 0.5)).sum(dim=1)", "answers_move_the_belief_to_their_side"),
        ("math.log(_COIN_WEIGHT) * one", "-99.0 * one", "answers_that_are_half_adversarial_everywhere"),
        ("right = needed[:, None, None] / gain", "right = 1 / gain", "more_missing_evidence_costs_more"),
        ("/ (_LONGER * left), _SUDDEN", "/ (_LONGER * 50), _SUDDEN", "more_missing_evidence_costs_more"),
    ),
    *_of(
        "attacks/settle/lines.py",
        "unit/attacks/test_settle_belief.py",
        ("(~self.good | (self.final > self.allowed))", "~self.good", "the_last_line_is_settled_unless_it_is_clearly"),
        ("(self.final > self.allowed)", "(self.final > self.nearest)", "the_last_line_is_settled_unless_it_is_clearly"),
        ("known & (~self.good | (", "known & ((", "a_line_without_an_adversarial_answer_is_left"),
    ),
    *_of(
        "attacks/settle/reserve.py",
        "unit/attacks/test_reserve.py",
        ("problem.verdict + most.clamp(max=_FEWEST)", "problem.verdict + most", "the_first_reserve_is_fixed"),
        ("ledger.budget // 3)", "ledger.budget)", "the_first_reserve_is_fixed"),
        ("torch.minimum(needed, most[rows])", "needed", "the_reserve_of_a_border_is_at_most"),
        ("far.clamp(max=_GRADUAL)", "far", "a_gradual_border_reserves_what_a_place"),
        ("(estimate.lost - _NOISELESS)", "(0 * estimate.lost)", "a_gradual_border_and_a_noisy_one_reserve_more"),
        ("problem.ledger.reserved = problem.verdict", "pass", "the_settle_phase_may_ask_all_but_the_verdict"),
    ),
    *_of(
        "attacks/settle/phase.py",
        "unit/evaluation/test_trust.py",
        (
            "return inside + torch.minimum(margin, 0.1 * inside)",
            "return inside",
            "a_settled_point_is_hardly_further_out_without_noise",
        ),
    ),
    *_of(
        "attacks/directions/far.py",
        "unit/attacks/test_far_mode.py",
        ("moved = (self.shift - step)", "moved = (self.shift + step)", "lopsided_answers_shift_the_centre"),
        ("(~first & (slope < _HELPS))", "~first", "a_shift_that_helps_is_followed_by_the_secant"),
        (
            "scale = torch.where(cut, _CUT * self.scale,",
            "scale = torch.where(cut, self.scale,",
            "a_shift_that_does_not",
        ),
        ("state.far & (bend >= math.log(self.leave))", "state.far", "a_flat_border_ends_the_mode_within_a_few_steps"),
        ("& (move.angle > _TURNED)", "", "a_step_without_a_rung_says_nothing_about_the_bend"),
    ),
    *_of(
        "attacks/directions/gain.py",
        "unit/attacks/test_measured_gain.py",
        ("torch.minimum(best, 2 * state.last)", "best", "the_number_at_most_doubles"),
        ("torch.where(many, wanted, counts)", "wanted", "each_image_follows_the_rule_of_its_own"),
        ("torch.where(move.angle > 0, _RATE", "torch.where(move.angle >= 0, _RATE", "a_ray_that_was_measured_again"),
        (
            "a = state.square.clamp(min=_LEAST) / state.number.clamp(min=1)",
            "a = 0.01 + 0 * state.square",
            "steps_that_gain_little_lead_to_more_directions",
        ),
    ),
    *_of(
        "attacks/steps/ladder.py",
        "unit/attacks/test_far_mode.py",
        ("angle = (2 * rung)", "angle = (9 * rung)", "the_ladder_ends_on_a_rung a_far_step_turns"),
        ("down[trying] = ~yes", "down[trying] = yes", "the_ladder_ends_on_a_rung_below_the_angle"),
        (
            "problem.affordable(border.rows[trying]) > border.searched[trying]",
            "problem.affordable(border.rows[trying]) > -1",
            "the_ladder_leaves_the_queries",
        ),
    ),
    *_of(
        "elementwise.py",
        "unit/test_elementwise.py",
        ("return larger + (", "return one + (", "a_numbers_digits_do_not_depend_on_its_place"),
        ("math.log(max(base, _TINY))", "math.log(max(base, 1.0))", "the_ends_of_the_range_are_reached"),
    ),
    *_of(
        "arguments.py",
        "unit/attacks/test_part_arguments.py",
        ("isinstance(value, Integral) and not isinstance(value, bool)", "isinstance(value, Integral)", "an_argument"),
        ("return math.isfinite(value)", "return True", "an_argument_without_a_meaning"),
    ),
    *_of(
        "sigmoid/sample_ratio.py",
        "unit/sigmoid/test_sample_ratio.py",
        ("share + (1 - share) * lost", "share + share * lost", "lost_contrast_costs"),
        (".clamp(max=_LARGEST)", "", "the_sample_ratio_is_bounded"),
    ),
    *_of(
        "sigmoid/sample_size.py",
        "unit/sigmoid/test_sample_size.py",
        (
            "signal = torch.as_tensor(count) * correlation**2",
            "signal = torch.as_tensor(count) * correlation",
            "the_cosine",
        ),
        ("shifted = offset / spread", "shifted = offset", "an_offset_counts_in_spreads_and_not_in_inputs"),
    ),
    *_of(
        "sigmoid/posterior.py",
        "unit/sigmoid/test_sigmoid_posterior.py",
        ("windows[answer][place]", "windows[not answer][place]", "an_adversarial_answer_moves_the_centre"),
        ("(upper - 0.5 + share)", "(upper + share)", "a_quantile_lies_between_grid_points"),
    ),
    *_of(
        "oracles/ledger.py",
        "unit/oracles/test_ledger.py",
        ("(after > self._limit).any()", "(after > self._limit).all()", "the_query_over_the_budget_is_refused"),
        (
            "before + count > int(self._budget[row])",
            "before > int(self._budget[row])",
            "a_single_query_over_the_budget",
        ),
        (" - reserved)", ")", "reserved_queries_do_not_count_as_remaining"),
    ),
    *_of(
        "oracles/wrappers.py",
        "unit/oracles/test_wrappers.py",
        ("answers.shape[1], 0, -1,", "answers.shape[1],", "the_most_frequent_label_wins_and_the_earliest"),
        ("serial.unsqueeze(-1) * self.votes", "serial.unsqueeze(-1)", "numbered_queries_stay_numbered_apart"),
    ),
    *_of(
        "oracles/analytic.py",
        "unit/oracles/test_analytic.py",
        ("torch.sigmoid(4 * self.slope * height)", "torch.sigmoid(self.slope * height)", "a_planar_sigmoid_has_the"),
    ),
    *_of(
        "metrics/verdict.py",
        "unit/metrics/test_verdict.py",
        ("inv_cdf((1 + confidence) / 2)", "inv_cdf(confidence)", "known_values_are_met"),
        ("+ z * z / 4).sqrt()", ").sqrt()", "known_values_are_met"),
    ),
    *_of(
        "metrics/distance.py",
        "unit/metrics/test_distance.py",
        ("    return high\n", "    return low\n", "the_adversarial_end_of_what_remains_is_measured"),
        ("distance[wrong] = 0.0", "pass", "a_misclassified_original_is_at_distance_zero"),
    ),
    *_of(
        "metrics/summary.py",
        "unit/metrics/test_summary.py",
        ("percent * (len(ordered) - 1)", "percent * len(ordered)", "percentiles_agree_with_numpy"),
    ),
]


def known_tests(names: tuple[str, ...]) -> list[str]:
    """The whole names of tests of which a list has the beginnings."""
    found = []
    for name in names:
        file, _, begin = name.partition("::")
        text = (ROOT / "tests" / file).read_text()
        whole = [line[4:].split("(")[0] for line in text.splitlines() if line.startswith(f"def {begin}")]
        if not whole:
            raise SystemExit(f"no test of tests/{file} begins with {begin}")
        found += [f"{ROOT / 'tests' / file}::{test}" for test in whole]
    return found


def apart(work: Callable[[], int], seconds: int) -> int:
    """The exit code of some work in a process of its own, which ends with it; negative if it took too long."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def tested(source: Path, tests: list[str]) -> int:
    """Pytest's exit code for some tests of the package in a folder: 0 if all pass."""
    import pytest

    sys.path.insert(0, str(source))
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        return int(pytest.main([*OPTIONS, "--rootdir", str(ROOT), *tests]))


def noticed(source: Path, mutation: Mutation) -> bool:
    """Whether a test fails once a line of the copy is wrong."""
    file = source / "popskipjump" / mutation.file
    text = file.read_text()
    if text.count(mutation.old) != 1:
        raise SystemExit(f"{mutation.name}: the old text occurs {text.count(mutation.old)} times")
    file.write_text(text.replace(mutation.old, mutation.new))
    try:
        code = apart(lambda: tested(source, known_tests(mutation.tests)), SECONDS)
    finally:
        file.write_text(text)
    if code in NO_TESTS:
        raise SystemExit(f"{mutation.name}: no test was run")
    return code != 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="mutations of files whose names begin like this")
    args = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if mutation.file.startswith(tuple(args.only))]
    sys.dont_write_bytecode = True  # two versions of a file may have the same size and second
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # they take longer to load than most of these tests to run
    import torch

    torch.set_num_threads(1)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        every = sorted({test for mutation in chosen for test in known_tests(mutation.tests)})
        if apart(lambda: tested(source, every), 10 * SECONDS):
            print("some of the tests fail without any mutation")
            return 1
        survivors = []
        for mutation in chosen:
            alive = not noticed(source, mutation)
            survivors += [mutation] * alive
            print("SURVIVED" if alive else "noticed ", mutation.name, flush=True)
    print(f"{len(chosen)} mutations, {len(survivors)} survivors, {time.monotonic() - began:.0f} s")
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
