"""Decoders of one class that several threads need at once, for the first time."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref

from pyinformer.objects import GroupVersionResource, ObjectCodec, View

# A defect would end the process, so this one is not that of the tests.
_PROGRAM = """
import sys, threading
from types import ModuleType
from typing import Any

from pyinformer.objects import GroupVersionKind, KubeObject, ObjectMeta

MODELS = '''
import msgspec

class Container(msgspec.Struct, frozen=True):
    name: str
    image: str = ""
    args: tuple[str, ...] = ()

class Spec(msgspec.Struct, frozen=True):
    containers: tuple[Container, ...]
    node: "str | None" = None
    first: "Container | None" = None

class Meta(msgspec.Struct, frozen=True):
    name: "str"
    labels: "dict[str, str]" = {}

class Pod(msgspec.Struct, frozen=True):
    metadata: "Meta"
    spec: "Spec"
'''
META = b'{"name": "a", "labels": {"a": "b"}}'
SPEC = b'{"containers": [{"name": "c", "image": "i", "args": ["x"]}], "first": {"name": "f"}}'
RAW = b'{"metadata": %b, "spec": %b}' % (META, SPEC)
POD = KubeObject("a", ObjectMeta("", "a", "u", "1"), None, RAW, GroupVersionKind("", "v1", "Pod"))


def new_model() -> Any:
    module = sys.modules["models"] = ModuleType("models")
    exec(MODELS, module.__dict__)
    return module.Pod


def decode_in_threads(model: Any) -> list[str]:
    names, together = [], threading.Barrier(4)

    def decode() -> None:
        together.wait()
        for _ in range(3):
            names.append(POD.as_type(model).spec.containers[0].name)

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return names


sys.setswitchinterval(1e-6)
for _ in range(100):
    assert decode_in_threads(new_model()) == ["c"] * 12
print("right")
"""


def test_threads_may_decode_a_new_model_at_once() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", _PROGRAM],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "right\n", "")


class Phase(View):
    phase: str = ""


def test_a_view_that_the_program_forgets_is_kept_by_no_decoder() -> None:
    def followed() -> weakref.ref[type]:
        class Status(View):
            status: Phase = Phase()

        for _ in range(2):
            codec = ObjectCodec(GroupVersionResource.of("v1", "pods"), view=Status)
            assert codec.decode(_POD, 0, len(_POD)).view == Status(status=Phase(phase="Running"))
        return weakref.ref(Status)

    view = followed()
    gc.collect()

    assert view() is None


_POD = (
    b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"u","resourceVersion":"1"},'
    b'"status":{"phase":"Running"}}'
)
