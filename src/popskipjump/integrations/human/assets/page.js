"use strict";
const find = (id) => document.getElementById(id);
let person = "";
let current = null; // the open question
let busy = false;

async function post(path, content) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(content),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error || "The server refused.");
  return answer;
}

const later = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function showProgress(state) {
  if (state.total === undefined) return;
  find("progress").textContent = `${state.answered} answered, at most ${state.left} left`;
  find("bar").max = state.total;
  find("bar").value = state.answered;
}

function showQuestion(state) {
  find("picture").src = state.picture;
  find("original").src = state.original;
  find("start").src = state.start;
  const best = state.best;
  find("best-figure").hidden = !best;
  if (best) find("best").src = best.picture;
  find("best-text").textContent = best ? "border so far" : "";
  find("best-line").textContent = best
    ? `The border so far: pictures become something else at a distance of ${best.distance}.`
    : "The border is not known yet.";
  const classes = find("classes");
  if (classes.childElementCount !== state.classes.length) {
    classes.replaceChildren(
      ...state.classes.map((name, place) => {
        const button = document.createElement("button");
        button.dataset.answer = `class:${place}`;
        button.textContent = name;
        return button;
      }),
    );
  }
  find("task").hidden = false;
  find("task").dataset.key = state.key;
  find("message").textContent = "";
}

async function advance() {
  for (;;) {
    try {
      const state = await post("next", { person });
      showProgress(state);
      if (state.state === "done") {
        find("task").hidden = true;
        find("message").textContent = "The study is complete. Thank you!";
        document.body.dataset.state = "done";
        return;
      }
      if (state.state === "ask") {
        current = state.key;
        showQuestion(state);
        busy = false;
        return;
      }
      find("message").textContent = "One moment: the next question is being prepared.";
      await later(250);
    } catch (error) {
      find("message").textContent = `${error.message} Trying again.`;
      await later(1000);
    }
  }
}

async function give(answer) {
  if (busy || current === null) return;
  busy = true;
  const key = current;
  current = null;
  for (let attempt = 0; attempt < 60; attempt += 1) {
    try {
      await post("answer", { person, key, answer });
      break;
    } catch (error) {
      find("message").textContent = `${error.message} Trying again.`;
      await later(1000);
    }
  }
  await advance();
}

find("join").addEventListener("submit", (event) => {
  event.preventDefault();
  person = find("person").value.trim();
  try {
    sessionStorage.setItem("person", person);
  } catch {
    // Without storage, the name is asked for again after a reload.
  }
  find("join").hidden = true;
  advance();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-answer]");
  if (button) {
    button.blur(); // or Enter would press it again for the next question
    give(button.dataset.answer);
  }
});

const KEYS = { ArrowLeft: "same", ArrowRight: "other", ArrowDown: "unsure", s: "same", e: "other", t: "unsure" };

document.addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || !find("join").hidden) return;
  if (event.key === "o" || event.key === "O") {
    find("more").open = !find("more").open;
  } else if (event.key in KEYS) {
    event.preventDefault();
    give(KEYS[event.key]);
  } else if (/^[0-9]$/.test(event.key) && Number(event.key) < find("classes").childElementCount) {
    give(`class:${event.key}`);
  }
});

try {
  person = sessionStorage.getItem("person") || "";
} catch {
  person = "";
}
if (person) {
  find("join").hidden = true;
  advance();
} else {
  find("person").focus();
}
