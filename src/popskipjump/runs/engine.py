"""Engines: where the images of a run are attacked, in this process or in others; results do not depend on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from popskipjump.attacks import Progress
from popskipjump.errors import OracleError
from popskipjump.oracles import Oracle
from popskipjump.runs.group import attack_group
from popskipjump.runs.source import Source
from popskipjump.storage import ImageResult, Journalled, RunFolder


class Watch(NamedTuple):
    """What an engine tells while it works."""

    queries: Callable[[int], None] | None  # so many more were asked
    part: Callable[[int, float], None]  # of the shard with this first image, so many images' worth of work is done
    notes: Callable[[], None]  # the folder has something to say


class Room(NamedTuple):
    """What fits into the memory of a process that attacks."""

    images: int  # of one shard at most
    points: bool = True  # whether the points of every iteration fit, which the border distances by iteration need


class Engine(Protocol):
    """Attacks images in shards, each on its own; an image's result does not depend on the others of its shard."""

    def attack(
        self, folder: RunFolder, source: Source, images: list[int], room: Room, watch: Watch
    ) -> Iterator[list[ImageResult]]:
        """The results of each shard as soon as it is done, in any order; whoever iterates keeps them.

        Args:
            folder: of the run, open for writing; its journal says what is known already.
            source: what is attacked.
            images: that have no result yet, each once.
            room: what fits into memory.
            watch: what to call meanwhile.

        Raises:
            OracleError: the classifier failed on every image of a shard; what was answered is kept.
        """


class InProcess:
    """The engine of one process: one group of images after the other."""

    def attack(
        self, folder: RunFolder, source: Source, images: list[int], room: Room, watch: Watch
    ) -> Iterator[list[ImageResult]]:
        """See `Engine`."""
        for begin in range(0, len(images), room.images):
            yield self._attacked(folder, source, images[begin : begin + room.images], room, watch)

    def _attacked(
        self, folder: RunFolder, source: Source, group: list[int], room: Room, watch: Watch
    ) -> list[ImageResult]:
        def wrap(oracle: Oracle) -> Journalled:
            journalled = folder.journalled(oracle, group, watch.queries)
            watch.notes()
            return journalled

        def tell(now: Progress) -> None:
            watch.part(group[0], len(group) * work_done(now))

        try:
            points = room.points
            return attack_group(folder.spec, source, group, wrap, tell, keep_points=points, folder=folder.path)
        except OracleError:
            folder.forget_last_failures()
            raise


def work_done(now: Progress) -> float:
    """The part of a group's work that is done, in [0, 1].

    Iteration t asks about sqrt(t) queries, so t of them are about t^1.5 of the work.
    """
    share: float = (now.iteration / max(now.iterations, 1)) ** 1.5
    return share
