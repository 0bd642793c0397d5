"""The page of a study in a real browser: Debian's chromium, driven by Playwright."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx", reason="httpx is not installed: it is in the extra http")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: it is in the extra serve")

from http_toys import OVER
from human_toys import Attacking, InProcess, Person, attack, page_of, pixels, study_in

KEYS = {"same": "ArrowLeft", "other": "ArrowRight"}
WAIT = 120_000  # milliseconds, for machines with other work to do


class Visitor:
    """A page in the browser, all that it complained about, and all that it asked for."""

    def __init__(self, browser: Any, link: str, width: int = 1200, scheme: str = "light") -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        self.page.set_default_timeout(WAIT)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(link)

    def join(self, name: str) -> None:
        self.page.fill("#person", name)
        self.page.press("#person", "Enter")

    def question(self, before: str | None) -> str | None:
        """The key of the next question; None when the study is complete."""
        new = "k => document.body.dataset.state === 'done' || (document.getElementById('task').dataset.key || k) !== k"
        self.page.wait_for_function(new, arg=before)
        done = self.page.evaluate("document.body.dataset.state") == "done"
        return None if done else self.page.get_attribute("#task", "data-key")

    def answer(self, person: Person, most: int, click: bool = False) -> int:
        """Answer so many questions, with the keyboard or by clicks: how many were answered."""
        key = None
        for count in range(most):
            key = self.question(key)
            if key is None:
                return count
            said = person.says(pixels(self.page.get_attribute("#picture", "src")).mean())
            if click:
                self.page.click(f"button[data-answer={said}]")
            else:
                self.page.keyboard.press(KEYS[said])
        self.question(key)  # the last answer has arrived
        return most


def test_an_attack_is_answered_to_its_end_over_a_closed_browser_and_a_killed_server(
    browser: Any, tmp_path: Path
) -> None:
    person, budget = Person(0.1), 30
    study = study_in(tmp_path, budget)
    attacking = Attacking(study, budget=budget)
    with page_of(study) as (origin, link):
        first = Visitor(browser, link)
        first.join("anna")
        assert first.answer(person, 5) == 5
        first.page.close()
        second = Visitor(browser, link, width=390)
        second.join("anna")
        assert second.answer(person, 5, click=True) == 5
        assert second.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        study.close()  # with the server: as if it had been killed
        attacking.join(OVER)
        second.page.close()
    kept = len(study.replies)
    assert kept == 10

    study = study_in(tmp_path, budget)
    attacking = Attacking(study, budget=budget)
    with page_of(study) as (origin, link):
        third = Visitor(browser, link)
        third.join("anna")
        answered = third.answer(person, 200)
        attacking.join(OVER)
        assert third.page.text_content("#message").startswith("The study is complete")
        assert first.complaints == third.complaints == []
        assert [url for url in third.asked if not url.startswith((f"{origin}/", "data:"))] == []
    assert len(study.replies) == kept + answered
    report = attacking.report
    here = attack(InProcess(study.replies), budget)
    np.testing.assert_allclose(report.distances, here.distances, rtol=0.2)
    assert len([r for r in study.replies if r.kind == "query"]) == report.queries[0] <= budget
    study.close()


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_the_page_is_whole_and_shows_the_start_on_request(
    browser: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    study = study_in(tmp_path)
    Attacking(study)
    with page_of(study) as (_, link):
        visitor = Visitor(browser, link, width, scheme)
        visitor.join("bert")
        shown = visitor.question(None)
        page = visitor.page
        # Pictures are decoded when the browser has time for it.
        page.wait_for_function("[...document.images].filter(i => i.offsetParent).every(i => i.naturalWidth === 8)")
        assert not page.is_visible("#start")
        page.keyboard.press("o")
        assert page.is_visible("#start")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "the page scrolls sideways"
        bottom = page.evaluate("document.querySelector('.answers').getBoundingClientRect().bottom")
        assert bottom < 800, "the answers must be in sight without scrolling"
        sizes = page.evaluate(
            "[...document.querySelectorAll('#task button')].map(b => Math.min(b.offsetWidth, b.offsetHeight))"
        )
        assert min(sizes) >= 44, "a button is too small for a finger"
        assert page.evaluate("document.querySelectorAll('#classes button').length") == 2
        page.keyboard.press("1")
        assert visitor.question(shown) is not None
        assert visitor.complaints == []
        page.close()
    assert [reply.answer for reply in study.replies] == ["class:1"]
    study.close()


def test_a_page_of_another_origin_can_neither_read_nor_answer(browser: Any, tmp_path: Path) -> None:
    study = study_in(tmp_path)
    Attacking(study)
    with page_of(study) as (_, link):
        elsewhere = browser.new_page()
        elsewhere.goto("data:text/html,<title>elsewhere</title>")
        said = elsewhere.evaluate(
            """async link => {
                try {
                    const body = JSON.stringify({person: "eve"});
                    const answer = await fetch(link + "next", {method: "POST", mode: "no-cors", body});
                    const read = await fetch(link).then(r => r.text(), () => "refused");
                    return [answer.type, read];
                } catch (error) { return ["refused", "refused"]; }
            }""",
            link,
        )
        assert said[1] == "refused"
        elsewhere.close()
    assert study.replies == []
    study.close()
