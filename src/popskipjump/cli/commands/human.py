"""`psj human`."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from popskipjump.cli.console import notes, output, plain_errors
from popskipjump.errors import InputError

if TYPE_CHECKING:
    from popskipjump.cli.inputs import Selection
    from popskipjump.integrations.human import Material, Study

PEOPLE, LOCK = "people.json", "lock"
FAREWELL = 4.0  # seconds for the open pages to learn that the study is complete

Data = Annotated[
    Path | None,
    typer.Option(
        metavar="X.NPZ",
        help="Arrays `images` (N, ...) and `labels` (N,).",
        show_default="the embedded MNIST test images",
    ),
]
Folder = Annotated[Path, typer.Option("--study", help="Folder of the study; the same folder continues it.")]
Images = Annotated[int, typer.Option(min=1, help="Number of images.")]
StartIndex = Annotated[int, typer.Option(min=0, help="Number of the first image, counted from 0.")]
Attack = Annotated[str, typer.Option(help="Name of the attack; `psj attacks` lists them.")]
Budget = Annotated[
    int, typer.Option(min=10, help="Largest number of questions for each image, without the catch trials.")
]
Classes = Annotated[str, typer.Option(help="Names of the classes that people may choose, separated by commas.")]
CatchEvery = Annotated[int, typer.Option(min=0, help="One question in this many is a catch trial; 0 for none.")]
SecondEvery = Annotated[int, typer.Option(min=0, help="One question in this many goes to a second person; 0 for none.")]
Seed = Annotated[int, typer.Option(help="Random seed of the attack.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one and prints it.")]
Host = Annotated[
    str, typer.Option(help="Address of this machine to listen on; another than 127.0.0.1 is open to the network.")
]


def human(
    data: Data = None,
    study: Folder = Path("psj-study"),
    images: Images = 1,
    start_index: StartIndex = 0,
    attack: Attack = "qsj",
    budget: Budget = 100,
    classes: Classes = "",
    catch_every: CatchEvery = 8,
    second_every: SecondEvery = 6,
    seed: Seed = 0,
    port: Port = 0,
    host: Host = "127.0.0.1",
) -> None:
    """Let people be the classifier: serve a page that asks them, and attack what they see. Ctrl-C pauses the study."""
    from popskipjump.cli.inputs import load_images
    from popskipjump.experiments.pictures import picture
    from popskipjump.integrations.http.server import listen, server_of
    from popskipjump.integrations.human import Study
    from popskipjump.integrations.human.server import application, new_token
    from popskipjump.storage.files import Lock, io_errors

    with plain_errors("the answers are kept: the same command continues the study"):
        if host in ("0.0.0.0", "::", ""):  # noqa: S104
            raise InputError("--host must be the one address by which the page is reached, such as 192.168.1.5.")
        chosen = load_images(data, images, start_index, targeted=False, from_noise=False, bounds=(0.0, 1.0))
        material = _material(chosen, [name.strip() for name in classes.split(",") if name.strip()])
        with io_errors(study):
            study.mkdir(parents=True, exist_ok=True)
        name = material.digest(attack=attack, budget=budget, seed=seed, first=start_index)
        with Lock(study / LOCK), listen(port, host) as socket:
            asked = Study(material, study, picture, budget, name, seed, catch_every, second_every)
            token, number = new_token(), socket.getsockname()[1]
            origins = [f"http://{place}:{number}" for place in ("127.0.0.1", "localhost", host)]
            server = server_of(application(asked, token, origins))
            worker = _Worker(asked, chosen, material, study, attack, budget, seed, server)
            output().print(f"open http://{host}:{number}/{token}/", markup=False)
            if asked.replies:
                notes().print(f"continued: {len(asked.replies)} answers are already there.", markup=False)
            worker.start()
            try:
                server.run(sockets=[socket])
            finally:
                asked.close()
                worker.join(30)
            worker.tell()


def _material(chosen: Selection, classes: list[str]) -> Material:
    """The images with the nearest image of another class as each one's start."""
    import numpy as np

    from popskipjump.integrations.human import Material

    if chosen.pool is None:
        raise InputError("people need images of other classes to start from.")
    pool, labels = np.asarray(chosen.pool.images), np.asarray(chosen.pool.labels)
    starts = []
    for image, label in zip(chosen.images, chosen.labels, strict=True):
        others = pool[labels != label]
        starts.append(others[np.square(others - image).reshape(len(others), -1).sum(axis=1).argmin()])
    return Material(chosen.images, chosen.labels, np.stack(starts).astype(np.float32), (0.0, 1.0), classes)


class _Worker(threading.Thread):
    """The attack, beside the server: it asks the study and writes what it found."""

    def __init__(
        self,
        study: Study,
        chosen: Selection,
        material: Material,
        folder: Path,
        attack: str,
        budget: int,
        seed: int,
        server: Any,
    ) -> None:
        super().__init__(name="psj-study", daemon=True)
        self.study, self.chosen, self.material, self.folder = study, chosen, material, folder
        self.attack, self.budget, self.seed, self.server = attack, budget, seed, server
        self.error: Exception | None = None
        self.text: str | None = None

    def run(self) -> None:
        """Attack to the end, unless the study is closed before."""
        from popskipjump import Hooks, evaluate
        from popskipjump.runs.keep import write_report

        began = time.perf_counter()
        try:
            report = evaluate(
                self.study,
                self.material.images,
                self.material.labels,
                self.attack,
                starts=self.material.starts,
                budget=self.budget,
                seed=self.seed,
                verdict=10,
                image_ids=None,
                keep_trace=False,
                hooks=Hooks(keep_interrupted=False, on_step=self.study.show_step),
            )
            people = self.study.people()
            spec = {"attack": self.attack, "budget": self.budget, "seed": self.seed, "model": "people"}
            about = {"spec": spec, "seconds": round(time.perf_counter() - began, 3)}
            write_report(self.folder, report, self.chosen.image_ids, about)
            (self.folder / PEOPLE).write_text(json.dumps(people, indent=1) + "\n", encoding="utf-8")
            self.text = f"{report}\n{_about(people)}"
            self.study.finish({"images": len(report.status)})
            time.sleep(FAREWELL)
        except KeyboardInterrupt:  # the study was closed
            pass
        except Exception as error:
            self.error = error
        self.server.should_exit = True

    def tell(self) -> None:
        """Print what was found, or raise what went wrong."""
        if self.error is not None:
            raise self.error
        if self.text is None:
            notes().print("paused: the answers are kept, and the same command continues the study.", markup=False)
        else:
            output().print(self.text, markup=False)


def _about(people: dict[str, Any]) -> str:
    lines = [
        f"  {name}: {p['answers']} answers, {p['catch_right']} of {p['catch_trials']} catch trials right, "
        f"median {p['median_seconds']} s"
        for name, p in people["people"].items()
    ]
    both = people["disagreement"]
    if both["pairs"]:
        noise = "" if both["noise"] is None else f": about {both['noise']:.0%} of single answers are mistakes"
        lines.append(f"  second opinions: {both['differ']} of {both['pairs']} differ{noise}")
    return "\n".join(lines)
