"""A stock of any number of pods of which none is held: each is made while it is sent.

Memory is that of the templates, whatever the number of pods; a pod is the same in every way of
asking.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from benchmarks.data.templates import MARKERS, Template, TemplatePods
from benchmarks.server.recording import (
    FIRST_RESOURCE_VERSION,
    JSON_FORM,
    PROTOBUF_FORM,
    Render,
    as_chunk,
    grouped,
    wire_of,
)
from benchmarks.server.wire import Form


class EndlessStock:
    """The pods, made of templates for each form."""

    def __init__(
        self, pods: TemplatePods, *, render: Render | None = None, metadata: bool = False
    ) -> None:
        """Render the templates.

        Args:
            pods: what they are.
            render: makes protobuf of JSON; None offers none.
            metadata: whether those of metadata alone are made now, not when they are asked for.
        """
        self._pods = pods
        self._lock = threading.Lock()
        bodies = [pods.marked(number) for number in range(pods.templates)]
        self._templates = {JSON_FORM: list(map(Template, bodies))}
        if render is not None:
            self._templates[PROTOBUF_FORM] = list(map(Template, render(bodies)))
        if metadata:
            for form in list(self._templates):
                self._of(Form(form.protobuf, only_metadata=True))

    def __len__(self) -> int:
        return self._pods.objects

    def close(self) -> None:
        """Nothing is held but memory."""

    def parts(self, form: Form) -> Iterator[bytes]:
        """Yield the stream of all ADDED events, in parts of about a mebibyte."""
        event = wire_of(self._pods.kind, form).event
        frames = (as_chunk(event("ADDED", body)) for body in self.bodies(form, 0, len(self)))
        for _, _, part in grouped(frames):
            yield part

    def bodies(self, form: Form, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bodies of pods `start` to `stop`."""
        templates, identity = self._of(form), self._pods.identity
        for index in range(start, stop):
            version = FIRST_RESOURCE_VERSION + index
            filled = templates[index % len(templates)].filled
            yield filled(identity(index, resource_version=version))

    def lengths(self, form: Form, start: int, stop: int) -> Iterator[int]:
        """Yield how long those bodies are."""
        lengths = [template.length for template in self._of(form)]
        for index in range(start, stop):
            yield lengths[index % len(lengths)]

    def _of(self, form: Form) -> list[Template]:
        with self._lock:
            if form not in self._templates:
                of_whole = wire_of(self._pods.kind, form).of_whole
                whole = self._templates[Form(protobuf=form.protobuf)]
                self._templates[form] = [Template(of_whole(one.filled(MARKERS))) for one in whole]
            return self._templates[form]
