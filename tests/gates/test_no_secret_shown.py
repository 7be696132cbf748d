"""No output that can show an object shows the value of a Secret: each is made to fail and read."""

from __future__ import annotations

import asyncio
import enum
import json
import tempfile
import traceback
from typing import TYPE_CHECKING, Any

import msgspec
import pydantic
import pytest

import pyinformer
from pyinformer.cache.store import Indexer
from pyinformer.client.transport import StaticCredentials, find_config
from pyinformer.client.transport.config import ClientCertificate, Login, RenewingCredentials
from pyinformer.errors import InvalidObjectError
from pyinformer.objects import Added, Deleted, GroupVersionResource, ObjectCodec, Updated, diff
from pyinformer.testing import World
from tests.integration.history import History, Versions, check_same

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyinformer.objects import JSONObject, KubeObject

HIDDEN = "aHVudGVyMg=="
OTHER = "bmV3"
_EXEC = "client.authentication.k8s.io/v1"


def body(value: str = HIDDEN, *, resource_version: str = "1") -> JSONObject:
    """Return a Secret with a value."""
    applied = json.dumps({"data": {"key": value}})
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": "s",
            "namespace": "default",
            "uid": "u",
            "resourceVersion": resource_version,
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied},
        },
        "data": {"key": value},
    }


def cached(value: str = HIDDEN, *, resource_version: str = "1") -> KubeObject:
    """Return it as a cache holds it."""
    codec: ObjectCodec[None] = ObjectCodec(GroupVersionResource.of("v1", "secrets"))
    raw = json.dumps(body(value, resource_version=resource_version)).encode()
    return codec.decode(raw, 0, len(raw))


def failed_comparison() -> str:
    """Compare what a cache holds with the truth, as the suites do."""
    with pytest.raises(AssertionError) as raised:
        check_same({"default/s": body()}, {"default/s": body(OTHER)})
    assert "data.key" in str(raised.value)
    return str(raised.getrepr(style="long"))


def unknown_version() -> str:
    """Let the history checker meet a state that no writer made."""
    versions = Versions()
    versions.note(body(OTHER))
    with pytest.raises(AssertionError) as raised:
        versions.check(cached())
    return str(raised.getrepr(style="long"))


def violations() -> str:
    """Let the history checker meet an impossible life."""
    history = History()
    for event in (Added(cached()), Added(cached()), Updated(cached("YQ=="), cached())):
        history(event)
    history(Deleted(cached()))
    assert history.violations
    return "\n".join(history.violations)


def writes_of_a_world() -> str:
    """Write a Secret inside of a World, whole and by a patch, and print what it recorded."""
    with World() as world:

        async def write() -> None:
            """Create it and change it."""
            new: JSONObject = {**body(), "metadata": {"name": "s"}}
            created = await world.cluster.create(new, namespace="default")
            changed = {**created.to_dict(), "data": {"key": HIDDEN, "more": HIDDEN}}
            await world.cluster.patch(created, changed)

        world.run(write)
        assert [write.verb for write in world.writes] == ["create", "patch"]
        assert world.writes[1].body["data"] == {"more": HIDDEN}
        return repr(world.writes)


def failed_index() -> str:
    """Let an index function fail with the value in its words."""
    indexer: Indexer[None] = Indexer()

    def index(obj: KubeObject[Any]) -> str:
        raise ValueError(obj.to_dict()["data"]["key"])

    indexer.add_index("bad", index)
    indexer.apply_nowait(Added(cached()))
    return repr(indexer.indexes())


class _Choice(enum.Enum):
    """One of a few values, of which the Secret's is none."""

    ONLY = "only"


class _ChoiceData(pyinformer.View):
    key: _Choice = _Choice.ONLY


class _ChoiceView(pyinformer.View):
    data: _ChoiceData = _ChoiceData()


def misfit_of_a_view() -> str:
    """Project a Secret onto a view that its value does not fit, and read it."""
    codec: ObjectCodec[_ChoiceView] = ObjectCodec(
        GroupVersionResource.of("v1", "secrets"), view=_ChoiceView
    )
    raw = json.dumps(body()).encode()
    obj = codec.decode(raw, 0, len(raw))
    with pytest.raises(pyinformer.errors.InvalidObjectError) as raised:
        _ = obj.view
    assert "$.data.key" in obj.problem
    return obj.problem + _traceback(raised.value)


def misfit_of_a_read() -> str:
    """Read a value of a Secret, and all of it, as what it is not."""
    with pytest.raises(pyinformer.errors.InvalidObjectError) as at:
        cached().at("data.key", _Choice)
    with pytest.raises(pyinformer.errors.InvalidObjectError) as as_type:
        cached().as_type(_ChoiceView)
    return _traceback(at.value) + _traceback(as_type.value)


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def changes() -> str:
    """Print the differences between two Secrets."""
    return repr(diff(body(), body(OTHER)))


def shown() -> str:
    """Show it on purpose."""
    return repr(pyinformer.redacted(cached()))


def credentials() -> str:
    """Print whatever holds a token or a key, and let a plug-in fail that prints one."""
    token = StaticCredentials.bearer(OTHER)
    config = pyinformer.client.ClusterConfig(
        server="https://host", proxy_url=f"http://u:{OTHER}@proxy", credentials=token
    )
    login = Login({"Authorization": OTHER}, certificate=ClientCertificate("c", OTHER))
    shown = repr(
        [token, config, login, login.certificate, RenewingCredentials(_never, first=login)]
    )
    scripts = (f"echo token={OTHER} >&2; echo {OTHER}; exit 1", f"echo {OTHER}", _PRINTS_A_TOKEN)
    return shown + "".join(asyncio.run(_login_by(script)) for script in scripts)


_ANSWER = {"apiVersion": _EXEC, "kind": "ExecCredential", "status": {"token": OTHER}}
_PRINTS_A_TOKEN = f"echo '{json.dumps(_ANSWER)}'"


async def _login_by(script: str) -> str:
    """Return what shows of the configuration whose plug-in is a line of shell, or its error."""
    plugin = {
        "apiVersion": _EXEC,
        "interactiveMode": "Never",
        "command": "sh",
        "args": ["-c", script],
        "env": [{"name": "TOKEN", "value": OTHER}],
    }
    content = {
        "clusters": [{"name": "c", "cluster": {"server": "https://host"}}],
        "users": [{"name": "a", "user": {"exec": plugin}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "a"}}],
        "current-context": "x",
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(content, file)
        file.flush()
        try:
            config = await find_config(file.name)
            sent = await config.credentials.headers()
        except pyinformer.errors.ConfigurationError as error:
            assert script != _PRINTS_A_TOKEN
            return _traceback(error)
    assert sent == {"Authorization": f"Bearer {OTHER}"}
    return repr(config) + repr(config.credentials)


async def _never() -> Login:
    raise AssertionError


@pytest.mark.covers("client-go transport: TestMaskValue")
@pytest.mark.parametrize(
    "output",
    [
        credentials,
        failed_comparison,
        unknown_version,
        violations,
        writes_of_a_world,
        failed_index,
        misfit_of_a_view,
        misfit_of_a_read,
        changes,
        shown,
    ],
)
def test_no_output_shows_the_value_of_a_secret(
    output: Callable[[], str], caplog: pytest.LogCaptureFixture
) -> None:
    text = output() + caplog.text

    assert text
    assert HIDDEN not in text
    assert OTHER not in text


class _Checked(msgspec.Struct):
    """A model whose check quotes what it checks."""

    data: dict[str, str]

    def __post_init__(self) -> None:
        raise ValueError(f"bad {self.data}")


class _CheckedByPydantic(pydantic.BaseModel):
    """A model whose validator quotes what it checks."""

    data: dict[str, str]

    @pydantic.field_validator("data")
    @classmethod
    def check(cls, data: dict[str, str]) -> dict[str, str]:
        """Refuse any."""
        raise ValueError(f"bad {data}")


@pytest.mark.parametrize("model", [_Checked, _CheckedByPydantic])
def test_the_words_of_a_models_own_check_are_not_shown(model: type[Any]) -> None:
    with pytest.raises(InvalidObjectError, match=r"ValueError|value_error") as raised:
        cached().as_type(model)

    assert HIDDEN not in "".join(traceback.format_exception(raised.value)) + repr(raised.value)
