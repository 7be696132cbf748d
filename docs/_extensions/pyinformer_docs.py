"""The documentation's additions to Sphinx: contents, the reference, and links to types.

Pages are also read on a forge, so they do not contain directives. This extension adds a table of
contents to each folder's index page, resolves links from the documentation into the repository,
writes the reference from the docstrings into `docs/reference/api`, draws the stations of an event,
and finds the documented name of a type that a signature names by its private module. A type that a
folder exports and no public namespace does stays a warning.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import os
import pkgutil
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.abc
import public_names
import stations
from docutils.nodes import Element, bullet_list, document
from pygments.lexers.special import TextLexer
from sphinx.addnodes import pending_xref, pending_xref_condition, toctree

import pyinformer
import pyinformer.operator._served_hooks  # loaded late: signatures name what it knows

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_STARTS = ("follow-objects", "write-an-operator", "kopf", "client-go")
_CONTENTS = {
    "index": [
        ("Begin", [f"start/{name}" for name in _STARTS]),
        ("Tutorials", ["tutorials/index"]),
        ("How-to guides", ["howto/index"]),
        ("Explanation", ["explanation/index"]),
        ("Reference", ["reference/index"]),
        ("Benchmarks", ["benchmarks/index"]),
        ("Project", ["project/*"]),
    ],
    "tutorials/index": [("", ["*"])],
    "howto/index": [("", ["*"])],
    "explanation/index": [("", ["*"])],
    "reference/index": [("", ["*", "api/index"])],
    "benchmarks/index": [("", ["*", "runs/*"])],
}
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#|<)([^)#\s]+)(?=[)#])")
_ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)
_SECTION = re.compile(r"[A-Z][a-z]+( [a-z]+)?:$")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register everything; Sphinx calls this."""
    app.add_lexer("mermaid", TextLexer)  # forges draw it; here its text is shown
    app.connect("builder-inited", _write_reference)
    app.connect("source-read", _adapt_page)
    app.connect("autodoc-process-docstring", _adapt_docstring, priority=100)  # before napoleon
    app.connect("doctree-read", _leave_builtins_alone)
    app.connect("missing-reference", _find_type)
    app.connect("html-page-context", _navigate_by_titles, priority=400)  # before the theme's
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _write_reference(app: Sphinx) -> None:
    """Write the pages of the reference, and touch only those that changed."""
    folder = Path(app.srcdir) / "reference/api"
    folder.mkdir(exist_ok=True)
    pages = {f"{name}.rst": text for name, text in public_names.pages().items()}
    for old in folder.iterdir():
        if old.name not in pages:
            old.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _adapt_page(app: Sphinx, docname: str, content: list[str]) -> None:
    """Turn what a forge understands into what Sphinx does, and add the table of contents."""
    page = Path(app.env.doc2path(docname))
    if page.suffix != ".md":
        return
    root = Path(app.srcdir).parent
    text = content[0]
    if page.parent.name == "project":  # a page of one link shows what the link leads to
        page = (page.parent / _LINK.findall(text)[-1]).resolve()
        text = page.read_text(encoding="utf-8")
        app.env.note_dependency(str(page))
    here = Path(app.env.doc2path(docname)).parent
    text = _LINK.sub(lambda found: _link(found[1], page.parent, here, root / "docs"), text)
    text = _ANCHOR.sub(r"(\1)=", text)
    if stations.MARKER in text:
        svg = stations.picture(text)
        text = text.replace(stations.MARKER, f"```{{raw}} html\n{svg}\n```")
    for caption, patterns in _CONTENTS.get(docname, ()):
        head = ":hidden:\n:glob:\n" + (f":caption: {caption}\n" if caption else "")
        listed = "\n".join(patterns)
        text += f"\n```{{toctree}}\n{head}\n{listed}\n```\n"
    content[0] = text


def _link(target: str, written_in: Path, shown_in: Path, docs: Path) -> str:
    """Return a link relative to the page that shows it; a target that is not a page is a file."""
    path = (written_in / target).resolve()
    shown = docs / "project" / f"{path.stem.lower()}.md"
    if path.suffix == ".md" and not path.is_relative_to(docs) and shown.exists():
        path = shown
    if path.is_dir():
        path = docs / "index.md"  # a site has no folders to look at
    relative = os.path.relpath(path, shown_in)
    is_file = path.suffix == ".md" and not path.is_relative_to(docs)
    return f"path:{relative}" if is_file else relative


def _adapt_docstring(
    app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]
) -> None:
    """Keep a colon in what is said from naming a type, and examples in their columns."""
    if what == "method" and hasattr(found, "__signature__"):  # below it stands only a summary
        lines[:] = [*(inspect.getdoc(found) or "").splitlines(), ""]
    if what in {"attribute", "data", "property"}:
        lines.insert(0, "\\ ")
    if "Returns:" in lines:
        lines.insert(lines.index("Returns:") + 1, "    \\ ")
    literal = False
    for number in range(len(lines) - 1, 0, -1):
        is_example = lines[number].startswith("    ") and not lines[number - 1].strip()
        before = next((line for line in reversed(lines[:number]) if line.strip()), "")
        literal = is_example and not before.startswith(" ") and not before.endswith("::")
        if literal and not _SECTION.match(before):
            lines[number:number] = ["::", ""]


def _leave_builtins_alone(app: Sphinx, doctree: document) -> None:
    """Do not link `object`, `list` or `type` to our members of the same name."""
    for node in list(doctree.findall(pending_xref)):
        target = str(node.get("reftarget"))
        if node.get("refdomain") == "py" and hasattr(builtins, target):
            shown = [
                one.children[0] if isinstance(one, pending_xref_condition) else one
                for one in node.children
            ]
            node.replace_self(shown[:1])


def _navigate_by_titles(
    app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: document | None
) -> None:
    """Make the navigation of each page from the titles of all pages.

    The theme asks for titles only, but Sphinx first copies every heading and every name of the
    reference, for each page again. That was half the time of a build.
    """
    navigation = context["toctree"]

    def of_titles(**options: object) -> str:
        everything = app.env.tocs
        app.env.tocs = _titles(app.env)
        try:
            return str(navigation(**options))
        finally:
            app.env.tocs = everything

    context["toctree"] = of_titles


@cache
def _titles(env: BuildEnvironment) -> dict[str, bullet_list]:
    """Return the contents of each page without what is below its title, except for other pages."""
    titles = {page: contents.deepcopy() for page, contents in env.tocs.items()}
    for title in [entry for contents in titles.values() for entry in contents.children]:
        if isinstance(title, Element) and len(title) > 1:
            title[1][:] = list(title.findall(toctree))
    return titles


def _find_type(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: Element
) -> Element | None:
    """Link a type to where it is documented; leave foreign and private ones as text."""
    if node.get("refdomain") != "py":
        return None
    target = str(node.get("reftarget"))
    if "[" in target:
        return contnode  # a piece of a Literal or of a tuple
    found = _look_up(target)
    path = _documented().get(id(found))
    if path is not None:
        return env.domains["py"].resolve_xref(
            env, str(node["refdoc"]), app.builder, "obj", path, node, contnode
        )
    return None if found is None or id(found) in _exported() else contnode


@cache
def _documented() -> dict[int, str]:
    """Return the paths of the reference's names by the identity of what they name."""
    return {id(public_names.find(path)): path for path in public_names.paths().values()}


@cache
def _exported() -> frozenset[int]:
    """Return the identities of what the folders export: what is among them is to be shown."""
    folders = [
        importlib.import_module(f"pyinformer.{one.name}")
        for one in pkgutil.iter_modules(pyinformer.__path__)
        if one.ispkg and not one.name.startswith("_") and one.name != "cli"
    ]
    found = [
        getattr(folder, name)
        for folder in folders
        for name in getattr(folder, "__all__", ())
        if f"{folder.__name__}.{name}" not in public_names.INTERNAL
    ]
    return frozenset(id(one) for one in found if inspect.isclass(one))


@cache
def _look_up(target: str) -> object | None:
    """Find what a dotted path, or a bare name that a module of ours knows, stands for."""
    *folders, name = target.split(".")
    for cut in range(len(folders), 0, -1):
        try:
            found: object = importlib.import_module(".".join(folders[:cut]))
            for part in [*folders[cut:], name]:
                found = getattr(found, part)
        except (ImportError, AttributeError):
            continue
        return found
    if folders:
        return None
    ours = [module for path, module in sorted(sys.modules.items()) if path.startswith("pyinformer")]
    # Modules of ours import the types of anyio for type checkers only.
    return next((vars(one)[name] for one in [*ours, anyio.abc] if name in vars(one)), None)
