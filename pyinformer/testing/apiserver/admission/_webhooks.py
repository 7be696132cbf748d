"""Asks webhooks about a write: in this process, or at their URLs.

Source:
    k8s.io/apiserver pkg/admission/plugin/webhook/mutating and validating, dispatcher.go;
    pkg/admission/plugin/webhook/errors/statuserror.go.
"""

from __future__ import annotations

import base64
import ssl
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import aiohttp
import anyio
import msgspec

from pyinformer.objects import JSONObject, decoder_of
from pyinformer.testing.apiserver.admission._attributes import Attributes, fulfils, matched
from pyinformer.testing.apiserver.admission._expressions import EvaluationError
from pyinformer.testing.apiserver.patches import PatchError, json_patch
from pyinformer.testing.apiserver.requests import Failure, failures
from pyinformer.testing.apiserver.resources import ResourceType

Ask: TypeAlias = Callable[[bytes, float], Awaitable[tuple[int, bytes]]]
"""Sends a review, and returns the status and the body of the answer; by the seconds that it may
take."""

_decode: Final = decoder_of()
_DEFAULT_SECONDS: Final = 10
_TYPE: Final = ("apiVersion", "kind")
_OK: Final = 200
_FIRST_REFUSAL: Final = 400
_FAILED: Final = (OSError, aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One webhook of a configuration.

    Attributes:
        spec: as the configuration has it.
        ask: calls it; None calls its URL.
        mutates: whether it may change the object.
    """

    spec: JSONObject
    ask: Ask | None
    mutates: bool

    @property
    def name(self) -> str:
        """Its name in messages."""
        return str(self.spec["name"])

    def seen(self, attributes: Attributes, versions: Sequence[ResourceType]) -> Attributes | None:
        """Return a write as it is asked about it; None if it is not.

        Raises:
            Failure: a condition fails, and so does the write (403), or it is one that only a real
                server evaluates (501).
        """
        found = matched(attributes, self.spec, versions)
        if found is None:
            return None
        try:
            if not fulfils(found, self.spec.get("matchConditions") or (), {}):
                return None
        except EvaluationError as error:
            if self.ignores_failures:
                return None
            raise failures.forbidden(found.resource, found.name, str(error)) from None
        return found

    @property
    def ignores_failures(self) -> bool:
        """Whether a write is allowed if it cannot be asked."""
        return self.spec.get("failurePolicy") == "Ignore"

    @property
    def repeats(self) -> bool:
        """Whether it is asked again if a later one has changed the object."""
        return self.spec.get("reinvocationPolicy") == "IfNeeded"

    async def answer(self, attributes: Attributes, warnings: list[str]) -> JSONObject | None:
        """Ask about a write.

        Args:
            attributes: the write, as `seen` returns it.
            warnings: where those of the answer are added.

        Returns:
            The changed object; None if it stays.

        Raises:
            Failure: it is refused, or the webhook failed (500).

        Cancellation:
            Reaches a function in this process.
        """
        seconds = float(self.spec.get("timeoutSeconds") or _DEFAULT_SECONDS)
        uid = str(uuid.uuid4())
        ask = self.ask or self._at_url
        try:
            with anyio.fail_after(seconds):
                status, body = await ask(_review(attributes, uid), seconds)
            response = _response(status, body, uid)
            operations = _operations(response, mutates=self.mutates)
        except _FAILED as error:
            if self.ignores_failures:
                return None
            why = str(error) or type(error).__name__
            raise _internal(f'failed calling webhook "{self.name}": {why}') from None
        warnings += response.get("warnings") or ()
        if response.get("allowed") is not True:
            raise self._refusal(response.get("status") or {})
        return _patched(attributes.state, operations)

    async def _at_url(self, review: bytes, seconds: float) -> tuple[int, bytes]:
        config = self.spec.get("clientConfig") or {}
        url = config.get("url")
        if not isinstance(url, str) or urlsplit(url).scheme != "https":
            name = (config.get("service") or {}).get("name")
            message = f'service "{name}" cannot be reached: the test server knows URLs only'
            raise ValueError(message)
        context = ssl.create_default_context()
        if config.get("caBundle"):
            context = ssl.create_default_context(
                cadata=base64.b64decode(config["caBundle"]).decode()
            )
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                url,
                params={"timeout": f"{seconds:g}s"},
                data=review,
                headers={"Content-Type": "application/json"},
                ssl=context,
            ) as answer,
        ):
            return answer.status, await answer.read()

    def _refusal(self, status: Mapping[str, object]) -> Failure:
        by = f'admission webhook "{self.name}" denied the request'
        given = status.get("message") or status.get("reason")
        code = status.get("code")
        return Failure(
            code if isinstance(code, int) and code >= _FIRST_REFUSAL else 400,
            f"{by}: {given}" if given else f"{by} without explanation",
            reason=str(status.get("reason") or ""),
            details=_details(status),
        )


def _internal(why: str) -> Failure:
    return Failure(500, f"Internal error occurred: {why}", details={"causes": [{"message": why}]})


def _review(attributes: Attributes, uid: str) -> bytes:
    request = {
        **attributes.request(),
        "uid": uid,
        "object": attributes.state,
        "oldObject": attributes.old,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return msgspec.json.encode(review)


def _response(status: int, body: bytes, uid: str) -> JSONObject:
    if status != _OK:
        message = f"{status}: {body.decode(errors='replace')}"
        raise ValueError(message)
    found: JSONObject = _decode(body)["response"]
    if found["uid"] != uid:
        message = f"the answer is for {found['uid']!r}, not for {uid!r}"
        raise ValueError(message)
    return found


def _operations(response: JSONObject, *, mutates: bool) -> list[JSONObject]:
    """Return the operations of a patch, which only a webhook that mutates may send."""
    if not isinstance(response.get("allowed", False), bool):
        raise TypeError("response.allowed is not true or false")
    patch, kind = response.get("patch"), response.get("patchType")
    if not mutates and (patch or kind):
        raise ValueError(
            "received invalid webhook response: validating webhook may not return response."
            + ("patch" if patch else "patchType")
        )
    if bool(patch) is not bool(kind):
        given, lacks = ("patch", "patchType") if patch else ("patchType", "patch")
        message = f"webhook returned response.{given} but not response.{lacks}"
        raise ValueError(f"received invalid webhook response: {message}")
    found = _decode(base64.b64decode(patch)) if patch else []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError("received undecodable patch in webhook response")
    if found and kind != "JSONPatch":
        message = f'unsupported patch type "{kind}"'
        raise ValueError(message)
    return found


def _patched(body: JSONObject | None, operations: Sequence[JSONObject]) -> JSONObject | None:
    """Return the changed object; None if it stays.

    Raises:
        Failure: the patch does not fit (500), or it makes another kind of the object, whether or
            not failures of the webhook are ignored.
    """
    if body is None or not operations:
        return None
    try:
        found = json_patch(body, operations)
    except PatchError as error:
        raise _internal(str(error)) from None
    if not isinstance(found, dict) or any(found.get(one) != body.get(one) for one in _TYPE):
        raise _internal("a webhook's patch changed the type of the object")
    return found


def _details(status: Mapping[str, object]) -> JSONObject | None:
    found = status.get("details")
    return found if isinstance(found, dict) else None
