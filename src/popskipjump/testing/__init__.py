"""Contract tests for authors of adapters, noise models and attacks; classifiers with a known border; fault injection.

    from popskipjump.testing import AttackContract

    class TestMyAttack(AttackContract):
        def make_attack(self):
            return MyAttack()

pytest finds the claims in the class; none of them needs pytest itself.
"""

from popskipjump.testing.attacks import AttackContract
from popskipjump.testing.borders import Case, Polytope, Slab, Voronoi, known_borders
from popskipjump.testing.classifiers import ClassifierContract
from popskipjump.testing.faults import FaultError, Faults, FaultyOracle
from popskipjump.testing.noises import NoiseContract

__all__ = [
    "AttackContract",
    "Case",
    "ClassifierContract",
    "FaultError",
    "Faults",
    "FaultyOracle",
    "NoiseContract",
    "Polytope",
    "Slab",
    "Voronoi",
    "known_borders",
]
