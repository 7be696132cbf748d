"""Write the pages of upstream's tests from the markers of ours: `make conformance`.

`tests/conformance/upstream.toml` names every test of upstream. A row is held by the tests with the
marker `covers("package: name")`, or says why there is nothing of the kind. A test compares the
pages with both, so that a test which vanishes is noticed. Needs no Sphinx.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT: Final = Path(__file__).resolve().parents[2]
REGISTER: Final = ROOT / "tests/conformance/upstream.toml"
_REFERENCE: Final = ROOT / "docs/reference"

_PROJECTS: Final = {
    "client-go": ("client-go", "v0.37.1"),
    "apimachinery": ("client-go", "v0.37.1"),
    "controller-runtime": ("controller-runtime", "v0.25.2"),
    "kube-runtime": ("kube-rs", "5.0.0"),
    "kube-client": ("kube-rs", "5.0.0"),
}
"""The page and the version of a package's project."""

_WRITTEN: Final = """\
`make conformance` writes this page from `tests/conformance/upstream.toml` and from the markers
`covers` of the tests; a test holds that it is current.
"""

_ROWS: Final = """
A row that is named here, such as "reflector, row 7", is one of [the differences in
words](conformance-differences.md).
"""

_HEAD: Final = f"""# Conformance

The tests of client-go, apimachinery, controller-runtime and kube-rs are the checklist: each of them
is accounted for by its name.
{_WRITTEN}
- **held**: a test of ours fails if the promise of upstream's is broken.
- **differs**: a test of ours holds what is otherwise here, and the page says what that is.
- **absent**: there is nothing of the kind here, for the reason that the page gives. Most are Go's
  own plumbing, benchmarks and fakes.

"""

_TAIL: Final = """
[The differences in words](conformance-differences.md) are on a page of their own, part by part: the
reflector, the queues of deltas, informers, work queues, leader election. The ported tests stand in
`tests/conformance/`.
"""


@dataclass(frozen=True)
class Row:
    """Some tests of upstream with one verdict."""

    package: str
    file: str
    tests: tuple[str, ...]
    name: str = ""
    differs: str = ""
    absent: str = ""

    @property
    def mark(self) -> str:
        """What a marker names."""
        return f"{self.package}: {self.name or self.tests[0]}"

    @property
    def verdict(self) -> str:
        """How upstream's promise is kept."""
        return "absent" if self.absent else "differs" if self.differs else "held"


def rows() -> list[Row]:
    """Return what the register says, in its order."""
    register = tomllib.loads(REGISTER.read_text(encoding="utf-8"))
    return [
        Row(package, **{**row, "tests": tuple(row["tests"])})
        for package, found in register.items()
        for row in found
    ]


def markers(folder: Path = ROOT / "tests") -> dict[str, list[str]]:
    """Return the tests that name each row, such as `cache/store/test_indexer.py::test_it`."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if ".covers(" not in text:
            continue
        file = path.relative_to(folder).as_posix()
        for test, marks in _marked(ast.parse(text)):
            for mark in marks:
                found.setdefault(mark, []).append(f"{file}::{test}" if test else file)
    return found


def _marked(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, [mark for each in node.decorator_list for mark in _covered(each)]
            case ast.Assign(targets=[ast.Name(id="pytestmark")]):
                yield "", list(_covered(node.value))


def _covered(node: ast.expr) -> Iterator[str]:
    for each in ast.walk(node):
        match each:
            case ast.Call(func=ast.Attribute(attr="covers"), args=args):
                yield from (str(one.value) for one in args if isinstance(one, ast.Constant))


def mistakes(register: list[Row], held: Mapping[str, list[str]]) -> list[str]:
    """Return where the register and the markers contradict each other."""
    known = {row.mark for row in register}
    repeated = Counter(row.mark for row in register)
    return [
        *(
            f"no row is called {mark!r}: {tests[0]}"
            for mark, tests in held.items()
            if mark not in known
        ),
        *(f"two rows are called {mark!r}" for mark, count in repeated.items() if count > 1),
        *(
            f"no test covers {row.mark!r}"
            for row in register
            if not row.absent and row.mark not in held
        ),
        *(
            f"absent, and covered: {row.mark!r}"
            for row in register
            if row.absent and row.mark in held
        ),
        *(
            f"the marker of a module outlives its tests: mark those of {mark!r} in {test}"
            for mark, tests in held.items()
            for test in tests
            if "::" not in test
        ),
    ]


def pages() -> dict[Path, str]:
    """Return the text of each page."""
    register, held = rows(), markers()
    texts: dict[str, list[str]] = {}
    for package in dict.fromkeys(row.package for row in register):
        page, _ = _project(package)
        own = [row for row in register if row.package == package]
        texts.setdefault(page, []).append(_section(package, own, held))
    found = {
        _REFERENCE / f"conformance-{page}.md": f"# Conformance with {page}\n\n{_WRITTEN}{_ROWS}"
        + "".join(sections)
        for page, sections in texts.items()
    }
    return {_REFERENCE / "conformance.md": _HEAD + _totals(register) + _TAIL, **found}


def _project(package: str) -> tuple[str, str]:
    return _PROJECTS[package.partition(" ")[0]]


def _totals(register: list[Row]) -> str:
    counts: Counter[tuple[str, str, str]] = Counter()
    for row in register:
        counts[(*_project(row.package), row.verdict)] += len(row.tests)
    lines = "".join(
        f"| [{page}](conformance-{page}.md) | {version} |"
        + "".join(f" {counts[page, version, each]} |" for each in ("held", "differs", "absent"))
        + f" {sum(n for (one, *_), n in counts.items() if one == page)} |\n"
        for page, version in dict.fromkeys(_PROJECTS.values())
    )
    head = "| upstream | version | held | differs | absent | all |\n|---|---|---|---|---|---|\n"
    return head + lines


def _section(package: str, register: list[Row], held: Mapping[str, list[str]]) -> str:
    lines, file = "", ""
    for row in register:
        shown = "" if row.file == file else _code(row.file)
        file = row.file
        names = "<br>".join(_cell(test) for test in row.tests)
        lines += f"| {shown} | {names} | {row.verdict} | {_here(row, held.get(row.mark, []))} |\n"
    return f"\n## {package}\n\n| file | upstream tests | | here |\n|---|---|---|---|\n{lines}"


def _here(row: Row, tests: list[str]) -> str:
    words = _cell(row.absent or row.differs)
    return "<br>".join([*([words] if words else []), *(f"`{test}`" for test in tests)])


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    for sign in ("\\", "|", "*", "_", "<", "[", "$"):
        text = text.replace(sign, f"\\{sign}") if "`" not in text or sign == "|" else text
    return text


def write() -> None:
    """Write the pages, unless the register and the markers contradict each other.

    Raises:
        SystemExit: they do; each contradiction is named.
    """
    if found := mistakes(rows(), markers()):
        raise SystemExit("\n".join(found))
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
