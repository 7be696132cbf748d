"""The operator in four frameworks: the harness finds each kind of wrong state, and ours runs."""

from __future__ import annotations

import base64
import copy
import json
import sys
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from benchmarks.database_user.__main__ import cell, lines_table, run
from benchmarks.database_user.database import Database, User
from benchmarks.database_user.frameworks import FRAMEWORKS
from benchmarks.database_user.lines import Lines, count
from benchmarks.database_user.replicas import Replicas, count_errors
from benchmarks.database_user.scenes import SCENES, Outcome
from benchmarks.database_user.state import find_problems, problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyinformer.testing import KubeAPIServer

Change = tuple[dict[str, Any], dict[str, Any], dict[str, User]]

OBJECT: dict[str, Any] = {
    "apiVersion": "acme.io/v1",
    "kind": "DatabaseUser",
    "metadata": {"namespace": "apps", "name": "ann", "uid": "1", "generation": 2},
    "spec": {"database": "orders"},
    "status": {"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "True"}]},
}


def encoded(**fields: str) -> dict[str, str]:
    return {name: base64.b64encode(text.encode()).decode() for name, text in fields.items()}


SECRET: dict[str, Any] = {
    "metadata": {"name": "ann-credentials", "ownerReferences": [{"uid": "1"}]},
    "data": encoded(user="apps.ann", password="secret", database="orders"),
}
USERS = {"apps.ann": User("secret", "orders")}


def test_a_right_state_has_no_problems() -> None:
    assert problems([OBJECT], [SECRET], USERS) == {}
    assert problems([], [], {}) == {}


@pytest.mark.parametrize(
    ("expected", "change"),
    [
        pytest.param(
            "user is missing", lambda _obj, _secret, users: users.clear(), id="user-missing"
        ),
        pytest.param(
            "user has another database",
            lambda _obj, _secret, users: users.update({"apps.ann": User("secret", "other")}),
            id="other-database",
        ),
        pytest.param(
            "passwords differ",
            lambda _obj, _secret, users: users.update({"apps.ann": User("other", "orders")}),
            id="other-password",
        ),
        pytest.param(
            "passwords differ",
            lambda _obj, secret, _users: secret["data"].pop("password"),
            id="password-missing",
        ),
        pytest.param(
            "Secret has other fields",
            lambda _obj, secret, _users: secret["data"].update(encoded(user="eve")),
            id="other-user",
        ),
        pytest.param(
            "Secret has another owner",
            lambda _obj, secret, _users: secret["metadata"].update(ownerReferences=[{"uid": "0"}]),
            id="other-owner",
        ),
        pytest.param(
            "object is not Ready",
            lambda obj, _secret, _users: obj["status"].update(conditions=[]),
            id="no-condition",
        ),
        pytest.param(
            "object is not Ready",
            lambda obj, _secret, _users: obj["status"].update(observedGeneration=1),
            id="old-generation",
        ),
        pytest.param(
            "object is not released",
            lambda obj, _secret, _users: obj["metadata"].update(deletionTimestamp="now"),
            id="hangs",
        ),
    ],
)
def test_each_kind_of_wrong_state_is_found(
    expected: str, change: Callable[[dict[str, Any], dict[str, Any], dict[str, User]], None]
) -> None:
    obj, secret, users = copy.deepcopy(OBJECT), copy.deepcopy(SECRET), dict(USERS)

    change(obj, secret, users)

    assert problems([obj], [secret], users) == {expected: ["apps.ann"]}


def test_what_is_missing_and_what_is_left_over_is_found() -> None:
    assert problems([OBJECT], [], USERS) == {"Secret is missing": ["apps.ann"]}
    assert problems([], [SECRET], {}) == {"Secret without an object": ["ann-credentials"]}
    assert problems([], [], USERS) == {"user without an object": ["apps.ann"]}


def test_the_database_has_the_users_that_were_written_last() -> None:
    with Database() as database:
        ask(f"{database.url('0')}/users/apps.ann", "PUT", {"password": "a", "database": "b"})
        ask(f"{database.url('1')}/users/apps.bob", "PUT", {"password": "c", "database": "d"})
        assert database.users() == {"apps.ann": User("a", "b"), "apps.bob": User("c", "d")}
        assert database.last_writer == "1"

        for _ in range(2):  # the second one finds nothing, and is not an error
            ask(f"{database.url('0')}/users/apps.bob", "DELETE")
        listed = {"apps.ann": {"password": "a", "database": "b"}}
        assert ask(f"{database.url('2')}/users") == (200, listed)
        assert database.last_writer == "0"

        database.is_down = True
        assert ask(f"{database.url('0')}/users/apps.ann", "DELETE")[0] == 503
        assert database.users() == {"apps.ann": User("a", "b")}


def ask(url: str, method: str = "GET", body: dict[str, str] | None = None) -> tuple[int, object]:
    place = urlsplit(url)
    connection = HTTPConnection(place.netloc, timeout=100)
    try:
        connection.request(method, place.path, json.dumps(body))
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        pytest.param(
            "program.py",
            '"""What it is.\n\nFor whom.\n"""\n\nimport os\nfrom a import (\n    b,\n)\n\n\n'
            '# Why.\ndef f() -> str:\n    """Return it."""\n    return """\n    a\n    """\n',
            Lines(code=4, imports=4),
            id="python",
        ),
        pytest.param(
            "program.go",
            '// What it is.\npackage main\n\nimport (\n\t"os"\n)\n\n/* Why\n   not. */\n'
            "func main() {\n\tos.Exit(1) // at once\n}\n",
            Lines(code=3, imports=4),
            id="go",
        ),
        pytest.param(
            "Program.java",
            "package a;\n\nimport b.C;\n\n/** What it is. */\nclass D {\n  // Why.\n  C c;\n}\n",
            Lines(code=3, imports=2),
            id="java",
        ),
        pytest.param("pom.xml", "<!-- What\nit is. -->\n<a>\n</a>\n", Lines(2, 0), id="xml"),
    ],
)
def test_lines_are_counted_by_one_rule(
    tmp_path: Path, name: str, text: str, expected: Lines
) -> None:
    (tmp_path / name).write_text(text)

    assert count([tmp_path / name]) == expected
    assert count([tmp_path / name] * 2) == expected + expected


def test_errors_of_all_frameworks_are_counted() -> None:
    log = """\
2026-11-30 21:00:00,000 ERROR pyinformer.controller: the reconcile of apps/ann failed
Traceback (most recent call last):
[2026-11-30 21:00:00,000] kopf.objects         [ERROR   ] [apps/ann] Timer 'ensure' failed
{"level":"error","ts":"2026-11-30T21:00:00Z","msg":"Reconciler error"}
E1130 21:00:00.000000       1 reflector.go:200] "Failed to watch"
[main] ERROR io.javaoperatorsdk.operator.Operator - Error starting operator
2026-11-30 21:00:00,000 WARNING pyinformer: no errors here
{"level":"info","msg":"Starting Controller"}
"""
    assert count_errors(log) == 6


def test_a_cell_has_the_seconds_and_what_was_wrong() -> None:
    right = Outcome(seconds=1.5, problems={}, errors=0, exits=0, alive=2)
    wrong = Outcome(
        seconds=None, problems={"passwords differ": ["a", "b"]}, errors=2, exits=2, alive=1
    )

    assert cell([right]) == "1.5 s; 0 errors"
    assert cell([right, right]) == "1.5 s (1.5 to 1.5); 0 errors"
    assert cell([right, wrong]) == (
        "1.5 s; not right in 1 of 2 (passwords differ: 2); 1 errors; 1 exits"
    )


def test_all_programs_are_there() -> None:
    for framework in FRAMEWORKS.values():
        assert framework.version() != "unknown"
        assert framework.lines()["program"].code > 30
    assert FRAMEWORKS["controller-runtime"].lines()["generated"].code > 30
    assert lines_table([*FRAMEWORKS]).count("\n") == 1 + len(FRAMEWORKS)


def test_a_replica_that_ends_by_itself_is_started_again(tmp_path: Path) -> None:
    ends = [sys.executable, "-c", "print('ERROR'); raise SystemExit(1)"]
    with Database() as database:
        replicas = Replicas(ends, {}, tmp_path, database)
        try:
            replicas.start()
            while replicas.exits() < 4:
                replicas.wait(0.1)
            assert replicas.new_errors() >= 4
        finally:
            replicas.stop()
        assert replicas.alive() == 0


def test_a_replica_that_was_killed_stays_away_until_it_is_started(tmp_path: Path) -> None:
    waits = [sys.executable, "-c", "import signal; signal.pause()"]
    with Database() as database:
        replicas = Replicas(waits, {}, tmp_path, database)
        try:
            replicas.start()
            ask(f"{database.url('1')}/users/apps.ann", "DELETE")
            replicas.kill_leader()
            replicas.wait(0.1)
            assert (replicas.alive(), replicas.exits()) == (1, 0)
            replicas.start()
            assert replicas.alive() == 2
        finally:
            replicas.stop()


@pytest.mark.real
@pytest.mark.timeout(300)
def test_secrets_of_deleted_owners_are_no_problem(kube_apiserver: KubeAPIServer) -> None:
    kube_apiserver.ensure_namespace("apps")
    definition = {**OBJECT, "metadata": {"namespace": "apps", "name": "left"}}
    kube_apiserver.register("acme.io/v1", "DatabaseUser", "databaseusers")
    owner = kube_apiserver.create(definition)["metadata"]
    reference = {"apiVersion": "acme.io/v1", "kind": "DatabaseUser"}
    reference |= {"name": owner["name"], "uid": owner["uid"]}
    metadata = {"namespace": "apps", "name": "left-credentials", "ownerReferences": [reference]}
    kube_apiserver.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
    with Database() as database:
        assert "user is missing" in find_problems(kube_apiserver, database)
        kube_apiserver.delete("acme.io/v1", "databaseusers", "left", "apps")
        assert find_problems(kube_apiserver, database) == {}
    assert kube_apiserver.list("v1", "secrets", "apps") == []


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_our_operator_is_right_after_the_first_scenes(kube_apiserver_build: bool) -> None:
    ours = FRAMEWORKS["pyinformer"]
    command = ours.build()
    assert not isinstance(command, str)

    found = run(ours, command, [*SCENES][:3], bound_seconds=100.0, logs=None)

    assert [(one.problems, one.alive) for one in found.values()] == [({}, 2)] * 3
