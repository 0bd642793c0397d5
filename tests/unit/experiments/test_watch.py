"""`psj watch`: the page of a run under way, in a browser, and the small server behind it."""

from __future__ import annotations

import http.client
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from present import present
from run_toys import Logging, source_with, spec_of

from popskipjump.errors import InputError, NotARunError
from popskipjump.experiments.watch import page_of, state_of, steps_of
from popskipjump.experiments.watch_server import WatchServer
from popskipjump.runs.collect import collect
from popskipjump.runs.steps import STEPS
from popskipjump.storage.folder import info

Opened = Callable[..., Any]  # see conftest.py


class Stop:
    """Ctrl-C after so many queries."""

    def __init__(self, queries: int) -> None:
        self.left = queries

    def __call__(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = source_with(Logging())
    return collect(spec_of(source), range(3), tmp_path_factory.mktemp("runs"), source=source).folder


@pytest.fixture
def under_way(tmp_path: Path) -> Path:
    source = source_with(Logging())
    spec = spec_of(source, iterations=20)
    with pytest.raises(KeyboardInterrupt):
        collect(spec, range(3), tmp_path, source=source, on_queries=Stop(2000))
    return tmp_path / spec.digest


@pytest.fixture
def served(under_way: Path) -> Iterator[WatchServer]:
    with WatchServer(under_way) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server: WatchServer, path: str, **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_the_steps_of_a_finished_image_end_with_its_result(done: Path) -> None:
    found = present(steps_of(done, 1))
    assert [step["step"] for step in found["steps"]] == list(range(len(found["steps"])))
    assert all(step["point"].startswith("data:image/png") for step in found["steps"])
    assert all(step["chart"]["answers"] > 0 for step in found["steps"])
    assert found["result"]["queries"] >= found["steps"][-1]["queries"]
    assert state_of(done)["state"] == "done"


def test_a_run_under_way_shows_its_steps_and_no_result(under_way: Path) -> None:
    found, state = present(steps_of(under_way, 0)), state_of(under_way)
    assert found["result"] is None
    assert len(found["steps"]) >= 1
    assert state["queries"] == info(under_way).journalled > 0
    assert (state["finished"], state["asked"]) == (0, 3)


def test_inputs_that_are_no_pictures_show_the_values_that_changed_most(tmp_path: Path) -> None:
    source = source_with(Logging())
    flat = source.__class__(**{**vars(source), "images": np.ascontiguousarray(source.images.reshape(-1, 20))})
    folder = collect(spec_of(flat), range(1), tmp_path, source=flat).folder
    step = present(steps_of(folder, 0))["steps"][-1]
    assert step["point"] is None
    assert "→" in step["changed"][0]


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_the_slider_goes_through_the_iterations(
    opened: Opened, done: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    file = tmp_path / "watch.html"
    file.write_text(page_of(done, live=False), encoding="utf-8")
    steps = present(steps_of(done, 0))["steps"]
    with opened(file.as_uri(), width, scheme) as page:
        assert page.inner_text("#iteration") == f"{steps[-1]['step']} of {steps[-1]['step']}"
        seen = []
        for step in steps:
            page.fill("#slider", str(step["step"]))
            assert page.inner_text("#queries") == f"{step['queries']:,}"
            assert page.locator("#sigmoid circle").count() == len(step["chart"]["dots"])
            seen.append(page.get_attribute("#point", "src"))
        assert len(set(seen)) > 1
        page.select_option("#image", "2")
        assert "label" in page.inner_text("#cap-original")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_the_page_follows_a_run_as_it_goes_on(opened: Opened, served: WatchServer) -> None:
    folder = served.folder
    with opened(served.address) as page:
        page.wait_for_selector("#shown:not([hidden])")
        before = page.inner_text("#iteration")
        assert page.inner_text("#state") == "unfinished"
        assert page.inner_text("#result") == "under way"
        source = source_with(Logging())
        collect(spec_of(source, iterations=20), range(3), folder.parent, source=source)
        page.wait_for_selector("#state:text-is('done')", timeout=60_000)
        page.wait_for_selector("#result:not(:text-is('under way'))", timeout=60_000)
        assert page.inner_text("#iteration") != before


def test_axe_finds_no_serious_problem(accessibility: Callable[..., list[str]], done: Path, tmp_path: Path) -> None:
    file = tmp_path / "watch.html"
    file.write_text(page_of(done, live=False), encoding="utf-8")
    assert accessibility(file.as_uri(), "light") == []
    assert accessibility(file.as_uri(), "dark") == []


def test_the_server_answers_this_machine_alone_and_nothing_else(served: WatchServer) -> None:
    assert get(served, "/state.json")[0] == 200
    assert get(served, "/state.json", Host="evil.example:80")[0] == 403
    for path in ("/image/7.json", "/spec.json", "/../spec.json", "/image/../../etc.json", "/image/-1.json"):
        assert get(served, path)[0] == 404, path
    with pytest.raises(InputError, match="cannot be used"):
        WatchServer(served.folder, served.server_address[1])


def test_a_damaged_run_is_told_and_does_not_end_the_server(served: WatchServer) -> None:
    (served.folder / "spec.json").write_text("{")
    status, body = get(served, "/state.json")
    assert status == 500
    assert "damaged" in json.loads(body)["error"]


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotARunError):
        page_of(tmp_path, live=False)
    with pytest.raises(NotARunError):
        WatchServer(tmp_path)


def test_text_from_outside_stays_text(done: Path, opened: Opened, tmp_path: Path) -> None:
    lines = (done / STEPS / "0.jsonl").read_text().splitlines()
    folder = tmp_path / "run &lt;b&gt;"
    shutil.copytree(done, folder)
    about = json.loads(lines[0]) | {"label": "</script><script>alert(1)</script>"}
    (folder / STEPS / "0.jsonl").write_text("\n".join([json.dumps(about), *lines[1:]]))
    file = tmp_path / "watch.html"
    file.write_text(page_of(folder, live=False), encoding="utf-8")
    with opened(file.as_uri()) as page:
        assert "<script>" in page.inner_text("#cap-original")
