"""The house rules, checked on the syntax trees of the source and on the text of the repository.

Every rule is a function from a module to its violations, so that the last tests can show each rule a snippet that
breaks it. Nothing of the package is imported: a rule holds for code that would not even run. Which module may import
which is checked by import-linter (`[tool.importlinter]` in pyproject.toml); a test here shows that it notices.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PACKAGE = "popskipjump"

UNPICKLERS = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
NUMPY_OWN_STREAM = {"Generator", "SeedSequence", "BitGenerator", "Philox", "PCG64", "PCG64DXSM", "SFC64", "MT19937"}
TORCH_GLOBAL = re.compile(
    r"torch\.(manual_seed|seed|set_rng_state|random\.(?!fork_rng|get_rng_state)\w+|(cuda|mps|xpu)\.(manual_)?seed\w*)"
)
TORCH_DRAW = re.compile(r"torch\.(rand|randn|randint|randperm|normal|bernoulli|multinomial|poisson|rand\w*_like)")
DRAW_IN_PLACE = {"normal_", "uniform_", "bernoulli_", "random_", "exponential_", "cauchy_", "geometric_", "log_normal_"}
MACHINE_PATH = re.compile(r"(?<![\w.}])/(?:root|home|work)/")
REGISTRY = re.compile(r"(pypi|pythonhosted|download\.pytorch)\.org|npmjs\.(?:org|com)|anaconda\.org|-index[-]url")


class Module(NamedTuple):
    """A source file, parsed."""

    name: str  # dotted, such as popskipjump.attacks.walk
    is_package: bool
    tree: ast.Module

    @property
    def part(self) -> str:
        """The file or folder directly under the package; empty for the root `__init__.py`."""
        return _part(self.name)


class Violation(NamedTuple):
    line: int
    text: str


Rule = Callable[[Module], Iterator[Violation]]


def _part(dotted: str) -> str:
    return dotted.split(".")[1] if "." in dotted else ""


@functools.cache
def _modules() -> tuple[Module, ...]:
    found = []
    for path in sorted((SOURCE / PACKAGE).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(Module(name, is_package, ast.parse(path.read_text(encoding="utf-8"), str(path))))
    return tuple(found)


def _snippet(name: str, source: str) -> Module:
    return Module(name, False, ast.parse(source))


def _from_base(module: Module, node: ast.ImportFrom) -> str:
    """The absolute name of the module that a `from ... import` reads, relative ones resolved."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    keep = len(parts) - node.level + module.is_package
    return ".".join([*parts[:keep], *([node.module] if node.module else [])])


def _aliases(module: Module) -> dict[str, str]:
    """What each imported name stands for: `np` for numpy, `seed` for numpy.random.seed."""
    names = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                names[item.asname or item.name.split(".")[0]] = item.name if item.asname else item.name.split(".")[0]
        elif isinstance(node, ast.ImportFrom):
            for item in node.names:
                names[item.asname or item.name] = f"{_from_base(module, node)}.{item.name}"
    return names


def _dotted(node: ast.expr, aliases: dict[str, str]) -> str | None:
    """`np.random.seed` as numpy.random.seed; None for anything but a chain of names."""
    if isinstance(node, ast.Name):
        return aliases.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        owner = _dotted(node.value, aliases)
        return owner and f"{owner}.{node.attr}"
    return None


def _calls(module: Module) -> Iterator[tuple[ast.Call, str]]:
    aliases = _aliases(module)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call):
            yield node, _dotted(node.func, aliases) or ""


def _imports(module: Module) -> Iterator[tuple[int, str]]:
    """Every import with its line: at the top, within functions, and for type checking only."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, item.name) for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{_from_base(module, node)}.{item.name}") for item in node.names)


# The rules.


def no_print(module: Module) -> Iterator[Violation]:
    for call, name in _calls(module):
        if module.part != "cli" and name in {"print", "builtins.print"}:
            yield Violation(call.lineno, "print() outside `cli`: return the text, or let the caller see the numbers")


def no_assert(module: Module) -> Iterator[Violation]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assert):
            yield Violation(node.lineno, "assert vanishes under `python -O`: raise an error that says the way out")


def no_code_from_data(module: Module) -> Iterator[Violation]:
    for line, target in _imports(module):
        if target.split(".")[0] in UNPICKLERS:
            yield Violation(line, f"{target.split('.')[0]} can run code from a file: use safetensors, npz or JSON")
    for call, name in _calls(module):
        true = {key.arg for key in call.keywords if isinstance(key.value, ast.Constant) and key.value.value is True}
        if name in {"eval", "exec", "builtins.eval", "builtins.exec"}:
            yield Violation(call.lineno, f"{name}() runs text as code")
        elif (name == "torch.load" and "weights_only" not in true) or "allow_pickle" in true:
            yield Violation(call.lineno, "unpickling runs code from a file: weights_only=True, and never allow_pickle")


def no_global_randomness(module: Module) -> Iterator[Violation]:
    advice = "draw from a `popskipjump.rng.Key`, so that the same seed gives the same trace"
    for line, target in _imports(module):
        if target.split(".")[0] == "random":
            yield Violation(line, f"the `random` module has one global stream: {advice}")
    aliases = _aliases(module)
    for node in ast.walk(module.tree):
        name = (_dotted(node, aliases) if isinstance(node, ast.Name | ast.Attribute) else None) or ""
        numpy_name = name.removeprefix("numpy.random.")
        is_numpy = numpy_name != name and numpy_name not in {*NUMPY_OWN_STREAM, "default_rng"} and "." not in numpy_name
        if isinstance(node, ast.expr) and (is_numpy or TORCH_GLOBAL.fullmatch(name)):
            yield Violation(node.lineno, f"{name} touches a global stream: {advice}")
    for call, name in _calls(module):
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        own_stream = any(key.arg == "generator" for key in call.keywords)
        if (TORCH_DRAW.fullmatch(name) or method in DRAW_IN_PLACE) and not own_stream:
            yield Violation(call.lineno, f"{name or method}() without generator= draws from a global stream: {advice}")
        if name == "numpy.random.default_rng" and not (call.args or call.keywords):
            yield Violation(call.lineno, f"default_rng() without a seed cannot be repeated: {advice}")


def no_import_by_text(module: Module) -> Iterator[Violation]:
    for call, name in _calls(module):
        target = call.args[0] if call.args else None
        if name in {"importlib.import_module", "__import__"} and isinstance(target, ast.Constant):
            yield Violation(call.lineno, "import-linter does not see this import: use an import statement")


def machine_specific(text: str) -> Iterator[Violation]:
    for number, line in enumerate(text.splitlines(), start=1):
        if MACHINE_PATH.search(line):
            yield Violation(number, "a path of one machine: make it relative, or an argument")
        if REGISTRY.search(line):
            yield Violation(number, "the address of a package registry: name the package, and let pip be configured")


# The rules, applied.


def _check(rule: Rule) -> None:
    broken = [f"{module.name}, line {line}: {text}" for module in _modules() for line, text in rule(module)]
    assert not broken, "\n".join([f"{len(broken)} violation(s):", *broken])


def test_only_the_command_line_prints() -> None:
    _check(no_print)


def test_the_library_never_asserts() -> None:
    _check(no_assert)


def test_the_library_never_runs_code_from_data() -> None:
    _check(no_code_from_data)


def test_the_library_never_touches_a_global_random_stream() -> None:
    _check(no_global_randomness)


def test_no_import_is_hidden_in_a_text() -> None:
    _check(no_import_by_text)


def _repository_files() -> list[Path]:
    """The files that are, or would be, under version control; all but hidden folders where git cannot tell."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        listed = [str(path) for path in paths if not any(p.startswith(".") and p != ".ci" for p in path.parts[:-1])]
    return sorted(path for name in set(listed) - {""} if (path := ROOT / name).is_file())


def _text(path: Path) -> str:
    """The file's text; nothing for a binary file."""
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", errors="ignore")


def test_no_file_names_a_machine_path_or_a_registry() -> None:
    files = _repository_files()
    broken = [f"{p.relative_to(ROOT)}, line {n}: {text}" for p in files for n, text in machine_specific(_text(p))]
    assert not broken, "\n".join(broken)


# The rules, tested: each catches what it should, and leaves its lawful neighbour alone.

CAUGHT = [
    (no_import_by_text, "storage.journal", "import importlib\nimportlib.import_module('popskipjump.cli.app')"),
    (no_print, "evaluation", "print('done')"),
    (no_assert, "geometry", "def f(x):\n    assert x > 0"),
    (no_code_from_data, "zoo.cifar", "import pickle"),
    (no_code_from_data, "cli.attack", "exec('x = 1')"),
    (no_code_from_data, "zoo.nets", "import torch\ntorch.load('x.pt')"),
    (no_code_from_data, "zoo.data", "import numpy as np\nnp.load('x.npy', allow_pickle=True)"),
    (no_global_randomness, "noise.flip", "from random import choice"),
    (no_global_randomness, "noise.flip", "import torch\ntorch.manual_seed(0)"),
    (no_global_randomness, "noise.flip", "import numpy as np\nnp.random.seed(0)"),
    (no_global_randomness, "noise.flip", "from numpy.random import normal\nnormal(size=3)"),
    (no_global_randomness, "noise.flip", "import torch\ntorch.randn(3)"),
    (no_global_randomness, "noise.flip", "import torch\ntorch.empty(3).normal_()"),
    (no_global_randomness, "noise.flip", "import numpy as np\nnp.random.default_rng()"),
]

ALLOWED = [
    (no_import_by_text, "evaluation.views", "import importlib\nimportlib.import_module(name)"),
    (no_print, "cli.demo", "print('done')"),
    (no_code_from_data, "oracles.classifier", "model.eval()\ntorch.load('x.pt', weights_only=True)"),
    (no_global_randomness, "noise.flip", "import numpy as np\ndef f(rng: np.random.Generator): rng.normal()"),
    (no_global_randomness, "noise.flip", "import numpy as np\nnp.random.default_rng(3).normal()"),
    (no_global_randomness, "zoo.embedded", "import torch\nwith torch.random.fork_rng():\n    pass"),
    (no_global_randomness, "noise.flip", "import torch\ntorch.randn(3, generator=torch.Generator())"),
]


@pytest.mark.parametrize(("rule", "name", "source"), CAUGHT)
def test_a_rule_catches_a_snippet_that_breaks_it(rule: Rule, name: str, source: str) -> None:
    assert list(rule(_snippet(f"{PACKAGE}.{name}", source)))


@pytest.mark.parametrize(("rule", "name", "source"), ALLOWED)
def test_a_rule_leaves_lawful_code_alone(rule: Rule, name: str, source: str) -> None:
    assert not list(rule(_snippet(f"{PACKAGE}.{name}", source)))


BROKEN = {
    "sigmoid/model.py": "from popskipjump.attacks.walk import run",  # a lower layer
    "sigmoid/posterior.py": "from popskipjump.oracles import base",  # a neighbour
    "zoo/nets.py": "def late():\n    from ..evaluation.report import Report",  # within a function
    "storage/journal.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from popskipjump import runs",
    "metrics/distance.py": "from popskipjump import evaluate",  # the public names
    "attacks/walk.py": "from popskipjump.noise.flip import Flip",
    "evaluation/views.py": "def late():\n    import seaborn",
    "oracles/classifier.py": "from sklearn.base import BaseEstimator",
    "a_new_room.py": "",
}


def _lint(source: Path) -> tuple[int, str]:
    """The exit code of import-linter with our contracts, and what it says."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    options = ["--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    first = os.pathsep.join(filter(None, (str(source), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": first, "COLUMNS": "1000"}
    done = subprocess.run(
        [*command, *options], cwd=source, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_imports_keep_the_contracts() -> None:
    pytest.importorskip("importlinter")
    code, said = _lint(SOURCE)
    assert code == 0, said


def test_import_linter_notices_a_broken_contract_of_every_kind(tmp_path: Path) -> None:
    pytest.importorskip("importlinter")
    shutil.copytree(SOURCE / PACKAGE, tmp_path / PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    for name, snippet in BROKEN.items():
        path = tmp_path / PACKAGE / name
        path.write_text(f"{path.read_text() if path.exists() else ''}\n{snippet}\n")
    code, said = _lint(tmp_path)
    assert code != 0
    for name in BROKEN:
        assert f"{PACKAGE}.{name.removesuffix('.py').replace('/', '.')}" in said, said


@pytest.mark.parametrize("text", [f"cd /{'root'}/x", f"'/{'home'}/me'", f"file:///{'work'}/x", f"{'pypi'}.org/x"])
def test_the_text_rule_catches_a_machine_path_and_a_registry(text: str) -> None:
    assert list(machine_specific(text))


@pytest.mark.parametrize("text", ["docs/work/plan.md", "https://example.org/home/", "the root/leaf ratio"])
def test_the_text_rule_leaves_other_paths_alone(text: str) -> None:
    assert not list(machine_specific(text))


def test_the_tree_in_the_documentation_is_the_tree_of_the_files() -> None:
    spec = importlib.util.spec_from_file_location("write_tree", ROOT / "scripts" / "write_tree.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    said = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert said == script.page(), "run scripts/write_tree.py"


def _code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return ((body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0) + node.body[0].lineno - node.lineno


def test_no_file_function_or_folder_is_too_long_to_read() -> None:
    long = []
    for folder in {path.parent for path in (SOURCE / PACKAGE).rglob("*.py")}:
        files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        long += [f"{folder.relative_to(SOURCE)}: {len(files)} files"] if len(files) > 12 else []
        for path in files:
            text, name = path.read_text(encoding="utf-8"), path.relative_to(SOURCE)
            long += [f"{name}: {text.count(chr(10))} lines"] if text.count("\n") > 350 else []
            functions = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
            long += [f"{name}: {node.name}" for node in functions if _code_lines(node) > 60]
    assert not long


def _private_names_of_the_source() -> set[str]:
    """Attributes `self._x` and names `_x` of modules that the source defines."""
    found: set[str] = set()
    for module in _modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return {name for name in found if name.startswith("_") and not name.endswith("_") and name != "_"}


def _private_uses(text: str, private: set[str]) -> list[str]:
    """Uses of private names of the source in a test, but for names that the test itself stores under `self`.

    `monkeypatch.setattr(thing, "_name", ...)` is allowed: a fault has to be put where no public name is.
    """
    tree = ast.parse(text)
    own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            found += [f"{node.lineno}: {item.name}" for item in node.names if item.name.startswith("_")]
        elif isinstance(node, ast.Attribute) and node.attr in private - own:
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            if owner not in {"self", "cls"}:
                found.append(f"{node.lineno}: {node.attr}")
    return found


def test_tests_use_public_names_only() -> None:
    private = _private_names_of_the_source()
    files = sorted((ROOT / "tests").rglob("*.py"))
    found = {str(path.relative_to(ROOT)): _private_uses(path.read_text(encoding="utf-8"), private) for path in files}
    assert not {path: uses for path, uses in found.items() if uses}


@pytest.mark.parametrize(
    "text",
    [
        "from popskipjump.oracles.limit import _serve",
        "limit._thread.join()",
    ],
)
def test_a_private_name_in_a_test_is_noticed(text: str) -> None:
    assert _private_uses(text, {"_serve", "_thread"})
