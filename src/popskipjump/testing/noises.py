"""Contract of every noise model."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from popskipjump.noise import monte_carlo
from popskipjump.oracles import Classifier, Counted, Ledger, Ticket
from popskipjump.rng import Key
from popskipjump.testing.claims import claim

DRAWS = 4000
_SIGMAS = 6.0  # of a normal deviate: 2e-9, with some 30 comparisons below 1e-7


class NoiseContract:
    """Claims about a noise model; a subclass named `Test...` says how to make it, and the model below it."""

    def make_noise(self) -> Any:
        """The noise model."""
        raise NotImplementedError("say in your subclass how the noise is made")

    def make_model(self) -> Any:
        """A model with `labels(points)` for the noise to act on."""
        raise NotImplementedError("say in your subclass what the noise acts on")

    def make_points(self) -> Tensor:
        """About five inputs `(M, *S)`, float32; the noise should change the answer at some of them."""
        raise NotImplementedError("say in your subclass what is asked")

    def _drawn(self, count: int, seed: int = 0) -> tuple[Any, Any, Tensor, Tensor]:
        points = self.make_points()
        rows = torch.arange(count) % len(points)
        return self.make_noise(), self.make_model(), points[rows], Key(seed).child("answers").roots(torch.arange(count))

    def test_every_input_gets_one_label(self) -> None:
        """An int64 tensor of one dimension, 0 or more; none for none."""
        noise, model, points, roots = self._drawn(40)
        labels = noise.sample(model, points, roots)
        claim(labels.dtype == torch.int64 and labels.shape == (40,), f"labels {labels.dtype} {tuple(labels.shape)}.")
        claim(int(labels.min()) >= 0, f"a label is {int(labels.min())}.")
        claim(noise.sample(model, points[:0], roots[:0]).shape == (0,), "an empty batch gets answers.")

    def test_the_same_stream_gives_the_same_answer(self) -> None:
        """Whatever was drawn in between."""
        noise, model, points, roots = self._drawn(40)
        first = noise.sample(model, points, roots)
        noise.sample(model, points, roots + 1)
        claim(torch.equal(first, noise.sample(model, points, roots)), "answers do not follow from `roots` alone.")

    def test_an_answer_does_not_depend_on_its_batch(self) -> None:
        """In another order, and in sevens."""
        noise, model, points, roots = self._drawn(100)
        whole = noise.sample(model, points, roots)
        turned = torch.arange(100).flip(0)
        claim(torch.equal(noise.sample(model, points[turned], roots[turned]), whole[turned]), "the order matters.")
        parts = [noise.sample(model, points[i : i + 7], roots[i : i + 7]) for i in range(0, 100, 7)]
        claim(torch.equal(torch.cat(parts), whole), "the size of a batch matters.")

    def test_equal_inputs_get_different_answers(self) -> None:
        """Some input's answers vary over the streams; else there is no noise to test here."""
        noise, model, points, roots = self._drawn(60 * len(self.make_points()))
        labels = noise.sample(model, points, roots).reshape(60, -1)
        claim(bool((labels != labels[0]).any()), "60 streams give every input the same answer.")

    def test_answers_are_as_frequent_as_the_truth_says(self) -> None:
        """Where the noise has a truth."""
        noise, model, points, _ = self._drawn(len(self.make_points()))
        if not hasattr(noise, "truth"):
            return
        truth = noise.truth(model, points, draws=DRAWS, key=Key(1))
        seen = monte_carlo(noise, model, points, draws=DRAWS, key=Key(2))
        claim(bool(torch.allclose(truth.probabilities.sum(dim=1), torch.ones(len(points)), atol=1e-4)), "no sum of 1.")
        error = (truth.standard_error**2 + seen.standard_error**2).sqrt()
        away = (seen.probabilities - truth.probabilities).abs() - _SIGMAS * error - 3 / DRAWS
        claim(
            float(away.max()) <= 0, f"frequencies leave the truth by {float(away.max()):.4f} more than chance allows."
        )

    def test_points_and_the_global_generator_are_left_alone(self) -> None:
        """Noise draws from its streams."""
        noise, model, points, roots = self._drawn(20)
        before, state = points.clone(), torch.random.get_rng_state()
        noise.sample(model, points, roots)
        claim(torch.equal(points, before), "the points were changed.")
        claim(torch.equal(torch.random.get_rng_state(), state), "torch's global generator was used.")

    def test_chunks_of_any_size_answer_alike(self) -> None:
        """Through a ledger, as an evaluation asks."""
        noise, model, points, _ = self._drawn(50)
        images = torch.arange(5).repeat_interleave(10)

        def answers(rows: int) -> Tensor:
            oracle = Counted(Classifier(model, noise, seed=3, max_rows=rows), Ledger(5), torch.arange(10, 15))
            return oracle.ask(points, Ticket(images))

        claim(torch.equal(answers(2048), answers(9)), "the size of a chunk matters.")
