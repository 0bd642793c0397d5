"""People as a classifier: what they are asked, what is kept, and who may answer."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from present import present

httpx = pytest.importorskip("httpx", reason="httpx is not installed: it is in the extra http")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: it is in the extra serve")

from http_toys import OVER  # noqa: E402
from human_toys import TOKEN, Attacking, InProcess, Person, attack, material, page_of, pixels, study_in  # noqa: E402

import popskipjump as psj  # noqa: E402
from popskipjump.integrations.human.study import Study  # noqa: E402

SOURCE = Path(psj.__file__).parents[1]


def work(study: Study, people: dict[str, Person], most: int = 500, until: int | None = None) -> list[dict[str, Any]]:
    """Let people answer in turns until the study is done, or so many questions were answered: what they were shown."""
    shown: list[dict[str, Any]] = []
    deadline = time.monotonic() + OVER
    for turn in itertools.count():
        name = list(people)[turn % len(people)]
        state = study.next(name)
        if state["state"] == "done" or (until is not None and len(shown) >= until):
            return shown
        if state["state"] == "wait":
            assert time.monotonic() < deadline, "the attack does not go on"
            time.sleep(0.0005)
            continue
        shown.append({"person": name, **state})
        assert len(shown) <= most, "the study does not end"
        deadline = time.monotonic() + OVER
        study.answer(name, state["key"], people[name].says(pixels(state["picture"]).mean()))
    return shown


def test_an_attack_on_people_ends_where_the_same_answers_lead_in_process(tmp_path: Path) -> None:
    study = study_in(tmp_path, budget=60)
    attacking = Attacking(study, budget=60)
    work(study, {"anna": Person(0.1)})
    attacking.join(OVER)
    there = attack(InProcess(study.replies), budget=60)
    assert np.array_equal(there.points, attacking.report.points)
    assert attacking.report.queries[0] <= 60
    truth = (0.5 - material().images.mean()) * 8  # L2 distance to the border of mean brightness
    assert truth < attacking.report.distances[0] < 2 * truth
    study.close()


def test_a_killed_study_loses_no_answer_and_asks_none_again(tmp_path: Path) -> None:
    first = study_in(tmp_path, catch_every=0)
    attacking = Attacking(first)
    work(first, {"anna": Person(0.1)}, until=17)
    kept = list(first.replies)
    first.close()
    attacking.join(OVER)
    with (tmp_path / "answers.jsonl").open("ab") as file:
        file.write(b'{"kind": "query", "image": 0, "ser')  # torn: killed in mid-write
    second = study_in(tmp_path, catch_every=0)
    assert second.replies == kept
    attacking = Attacking(second)
    work(second, {"anna": Person(0.1, seed=1)})
    attacking.join(OVER)
    addresses = [(r.image, r.serial) for r in second.replies]
    assert len(set(addresses)) == len(addresses) == attacking.report.queries[0]
    second.close()


def test_no_picture_is_shown_twice_in_a_row(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    attacking = Attacking(study)
    shown = work(study, {"anna": Person(0.0)})
    attacking.join(OVER)
    pictures = [question["picture"] for question in shown]
    assert all(one != other for one, other in itertools.pairwise(pictures))
    assert all(question["left"] >= 0 for question in shown)
    assert shown[0]["best"] is None
    truth = (0.5 - material().images.mean()) * 8  # L2 distance to the border of mean brightness
    assert 0.7 * truth < shown[-1]["best"]["distance"] < 2 * truth, "this is not the border that the attack has found"
    study.close()


def test_catch_trials_find_out_who_does_not_look(tmp_path: Path) -> None:
    study = study_in(tmp_path, budget=60, catch_every=3)
    attacking = Attacking(study, budget=60)
    work(study, {"attentive": Person(0.0), "careless": Person(0.5, seed=4)})
    attacking.join(OVER)
    people = study.people()["people"]
    assert people["attentive"]["catch_right"] == people["attentive"]["catch_trials"] >= 5
    assert people["careless"]["catch_right"] < people["careless"]["catch_trials"]
    queries = [r for r in study.replies if r.kind == "query"]
    assert len(queries) == attacking.report.queries[0], "a catch trial must not reach the attack"
    study.close()


def test_second_opinions_measure_disagreement_as_noise(tmp_path: Path) -> None:
    study = study_in(tmp_path, budget=200, second_every=2, catch_every=0)
    attacking = Attacking(study, budget=200)
    work(study, {"a": Person(0.2, seed=1), "b": Person(0.2, seed=2)}, most=2000)
    attacking.join(OVER)
    found = study.people()["disagreement"]
    assert found["pairs"] >= 50
    # Far from the border two people with 20% mistakes differ in 32%, near it in up to half of the cases.
    assert 0.1 < found["differ"] / found["pairs"] < 0.7
    study.close()


def test_two_people_never_answer_the_same_query(tmp_path: Path) -> None:
    study = study_in(tmp_path, second_every=0, catch_every=0)
    attacking = Attacking(study)
    shown = work(study, {"a": Person(0.0), "b": Person(0.0)})
    attacking.join(OVER)
    assert len({question["key"] for question in shown}) == len(shown) == len(study.replies)
    study.close()


def test_cannot_tell_is_a_coin_that_falls_alike_on_every_replay(tmp_path: Path) -> None:
    study = study_in(tmp_path, catch_every=0)
    attacking = Attacking(study)

    class Undecided(Person):
        def says(self, brightness: float) -> str:
            return "unsure" if abs(brightness - 0.5) < 0.05 else super().says(brightness)

    work(study, {"anna": Undecided(0.0)})
    attacking.join(OVER)
    study.close()
    assert any(reply.answer == "unsure" for reply in study.replies)
    again = study_in(tmp_path, catch_every=0)
    replayed = Attacking(again)
    replayed.join(OVER)
    assert np.array_equal(replayed.report.points, attacking.report.points)
    again.close()


def test_a_folder_of_another_study_and_a_damaged_file_are_refused_untouched(tmp_path: Path) -> None:
    study_in(tmp_path).close()
    file = tmp_path / "answers.jsonl"
    before = file.read_bytes()
    with pytest.raises(psj.NotARunError, match="another study"):
        study_in(tmp_path, budget=41)
    assert file.read_bytes() == before
    file.write_bytes(before + b"nonsense\n" + b'{"kind": "query"}\n')
    with pytest.raises(psj.DamagedRunError, match="line 2"):
        study_in(tmp_path)


def test_pictures_that_cannot_be_drawn_are_refused(tmp_path: Path) -> None:
    from popskipjump.integrations.human import Material, Study

    flat = Material(np.zeros((1, 5), np.float32), np.zeros(1, np.int64), np.ones((1, 5), np.float32))
    with pytest.raises(psj.InputError, match="pictures"):
        Study(flat, tmp_path, lambda values: None, 10, "x")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 200),
        ({"path": "another-token/next"}, 404),
        ({"path": "next"}, 404),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": None}, 403),
        ({"host": "evil.example"}, 421),
        ({"body": b"{}"}, 400),
        ({"body": b"[" * 3000}, 400),
        ({"body": b"x" * 5000}, 400),
        ({"body": json.dumps({"person": "<script>"}).encode()}, 400),
        ({"body": json.dumps({"person": "a" * 25}).encode()}, 400),
        ({"kind": "text/plain"}, 400),
    ],
)
def test_the_page_answers_nobody_without_token_host_origin_and_sense(
    tmp_path: Path, change: dict[str, Any], expected: int
) -> None:
    study = study_in(tmp_path)
    with page_of(study) as (origin, _):
        headers = {"Origin": change.get("origin", origin), "Content-Type": change.get("kind", "application/json")}
        headers |= {"Host": change["host"]} if "host" in change else {}
        response = httpx.post(
            f"{origin}/{change.get('path', TOKEN + '/next')}",
            content=change.get("body", b'{"person": "anna"}'),
            headers={name: value for name, value in headers.items() if value is not None},
            trust_env=False,
        )
    study.close()
    assert response.status_code == expected
    assert "default-src 'none'" in response.headers.get("content-security-policy", "") or expected == 404


@pytest.mark.parametrize("answer", ["class:2", "class:-1", "yes", "", 3, None, "class:1" + "0" * 30])
def test_an_answer_that_the_page_does_not_offer_is_refused(tmp_path: Path, answer: Any) -> None:
    study = study_in(tmp_path)
    Attacking(study)
    state = {"state": "wait"}
    deadline = time.monotonic() + OVER
    while state["state"] == "wait" and time.monotonic() < deadline:
        time.sleep(0.0005)
        state = study.next("anna")
    with pytest.raises(psj.InputError):
        study.answer("anna", state["key"], answer)
    assert study.answer("anna", "another key", "same") is False
    assert study.answer("bert", state["key"], "same") is False
    assert study.replies == []
    study.close()


@pytest.mark.slow
def test_the_command_is_killed_and_continued_with_the_same_folder(tmp_path: Path) -> None:
    what = material(2)
    images = np.concatenate((what.images, what.starts))
    np.savez(tmp_path / "small.npz", images=images, labels=np.array([0, 0, 1, 1]))
    command = [sys.executable, "-m", "popskipjump", "human", "--data", str(tmp_path / "small.npz")]
    command += ["--study", str(tmp_path / "study"), "--budget", "30", "--catch-every", "0"]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    answered, person, output = 0, Person(0.1), ""
    for stop_after in (8, 1000):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        link = present(re.search(r"(http://[\d.:]+)/\S+", present(process.stdout).readline()))
        with httpx.Client(base_url=link[0], headers={"Origin": link[1]}, trust_env=False, timeout=30) as client:
            for _ in range(2000):
                state = client.post("next", json={"person": "anna"}).json()
                if state["state"] == "done" or answered >= stop_after:
                    break
                if state["state"] == "ask":
                    said = person.says(pixels(state["picture"]).mean())
                    client.post("answer", json={"person": "anna", "key": state["key"], "answer": said})
                    answered += 1
        if stop_after == 8:
            process.send_signal(signal.SIGKILL)
            process.wait(30)
            present(process.stdout).close()
        else:
            output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "anna" in output
    lines = (tmp_path / "study" / "answers.jsonl").read_text().splitlines()
    report = json.loads((tmp_path / "study" / "report.json").read_text())
    assert len(lines) - 1 == answered == report["images"][0]["queries"] <= 30
