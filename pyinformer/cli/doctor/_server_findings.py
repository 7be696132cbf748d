"""The findings about a server and the way to it, from what was measured. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from pyinformer.cache.reflector.lineage import is_built_in
from pyinformer.objects import Access, roles_yaml
from pyinformer.operator.diagnosis import THRESHOLDS as LIMITS
from pyinformer.operator.diagnosis import (
    DiagnosisFinding,
    Severity,
    good,
    grade,
    span,
    trouble,
    warn,
)

if TYPE_CHECKING:
    from pyinformer.cli.doctor._credential_expiry import Certificate
    from pyinformer.cli.doctor._facts import (
        LoginFacts,
        RequestFailure,
        ResourceFacts,
        ServerFacts,
    )
    from pyinformer.cli.doctor._network import NetworkFacts, Step, TLSFailure

Found: TypeAlias = Iterator[DiagnosisFinding]

_VERBS: Final = ("list", "watch")
_ROLE_NAME: Final = "informer"
_STEPS: Final[dict[Step, tuple[str, str, str]]] = {
    "lookup": ("the name", "is resolved", "cannot be resolved"),
    "connect": ("the connection", "is made", "cannot be made"),
    "tls": ("the TLS handshake", "succeeds", "fails"),
    "request": ("a request for the version", "is answered", "fails"),
}
_CURES: Final[dict[Step, str]] = {
    "lookup": "correct the server of the kubeconfig, or the DNS of this host",
    "connect": "check that the server runs, and that firewalls and proxies let this host reach it",
    "tls": "correct certificate-authority-data, or tls-server-name, in the kubeconfig",
    "request": "check what answers at this address, and the path in it: an API server has /version",
}
_TLS_CURES: Final[dict[TLSFailure, str]] = {
    "untrusted": _CURES["tls"],
    "expired": "renew the certificate of the server, or correct the clock of this host",
    "ended": (
        "check what listens there: it ended the handshake, as a load balancer without a server, a"
        " port without TLS, or a firewall that filters names does"
    ),
    "version": "let the server, or what is in front of it, offer TLS 1.2 or later",
    "not_tls": "check the scheme and the port of the server: what listens there does not speak TLS",
    "client_certificate": "correct or renew the client certificate of the kubeconfig",
    "refused": (
        "look at the log of the server, which refused the handshake: names, ciphers and client"
        " certificates can be the reason"
    ),
}
_REFUSED: Final[dict[RequestFailure | None, tuple[str, str]]] = {
    None: ("fail", _CURES["request"]),
    "credentials": ("are refused", "log in again, or correct the user of the kubeconfig"),
    "certificate": ("fail", _CURES["tls"]),
    "proxy_login": (
        "are refused by the proxy",
        "put the user and password of the proxy into its URL",
    ),
    "proxy": (
        "are refused by the proxy",
        "check why the proxy refuses the way to this server: its rules, and what it reaches",
    ),
    "overload": (
        "are refused for now",
        "look for programs that send many requests: the server, or a gateway, limits their number",
    ),
    "no_server": (
        "fail",
        "check that the API server runs: what answers here, such as a load balancer, has none",
    ),
}
_NOT_ANSWERED: Final = (
    "look at the API server, and at what is in front of it: the connection is made, and nothing"
    " answers on it"
)
_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})")
_TESTED: Final = (1, 37)
"""The newest Kubernetes whose kube-apiserver the tests of the library run."""
_WATCH_LIST_SINCE: Final = (1, 32)
_KIB: Final = 1024.0
_MODES: Final = ("raw", "strip_managed_fields", "compact", "metadata", "decoded")


def server_findings(facts: ServerFacts, now: float) -> list[DiagnosisFinding]:
    """Return the findings about a server, in the order of the steps to it.

    Args:
        facts: what was measured.
        now: Unix time in seconds.
    """
    return [
        good("configuration", "the configuration", f"is from {facts.source}", facts.server),
        *_login(facts.login, now),
        *_network(facts.network, now),
        *_requests(facts),
    ]


def _login(login: LoginFacts, now: float) -> Found:
    subject = "the credentials"
    if login.error:
        cure = "log in again, or correct the user of the kubeconfig"
        yield trouble("credentials_missing", subject, "cannot be used", login.error, cure)
        return
    yield from _token(login, now)
    if login.certificate is not None:
        cure = "renew the client certificate of the kubeconfig"
        yield _expiry("client_certificate", "the client certificate", login.certificate, now, cure)


def _token(login: LoginFacts, now: float) -> Found:
    evidence = login.kind
    if not login.has_token:
        yield good("token_expiry", "the credentials", f"are {login.kind}")
        return
    if login.file_age_seconds is not None:
        evidence += f", written {span(login.file_age_seconds)} ago"
    if login.token_expires_at is None:
        yield good("token_expiry", "the credentials", "do not say when they expire", evidence)
        return
    left = login.token_expires_at - now
    when = f"expires in {span(left)}" if left > 0 else f"expired {span(-left)} ago"
    warn_seconds = LIMITS.token_warn_seconds
    cure = "log in again, or use credentials that are renewed"
    if login.is_renewed:
        warn_seconds = LIMITS.renewed_token_warn_seconds
        cure = "check why its renewal is late: the kubelet, or the exec plug-in"
    severity = _grade_left(left, warn_seconds=warn_seconds, trouble_seconds=0.0)
    yield _graded(severity, "token_expiry", "the token", when, evidence, cure)


def _graded(severity: Severity, *texts: str) -> DiagnosisFinding:
    """Return a finding from its code, subject, fact, evidence and cure."""
    code, subject, fact, evidence, cure = texts
    cure = "" if severity is Severity.OK else cure
    return DiagnosisFinding(severity, code, subject, fact, evidence, cure)


def _grade_left(left: float, *, warn_seconds: float, trouble_seconds: float) -> Severity:
    """Return the severity of a time that is left: the less, the worse."""
    return grade(-left, warn_seconds=-warn_seconds, trouble_seconds=-trouble_seconds)


def _expiry(code: str, subject: str, found: Certificate, now: float, cure: str) -> DiagnosisFinding:
    left = found.expires_at - now
    if found.begins_at > now:
        evidence = f"{found.subject}; valid in {span(found.begins_at - now)}"
        return trouble(
            code, subject, "is not valid yet", evidence, "correct the clock of this host"
        )
    severity = _grade_left(
        left,
        warn_seconds=LIMITS.certificate_warn_seconds,
        trouble_seconds=LIMITS.certificate_trouble_seconds,
    )
    fact = f"expires in {span(left)}" if left > 0 else f"expired {span(-left)} ago"
    return _graded(severity, code, subject, fact, found.subject or "it has no subject", cure)


def _network(network: NetworkFacts, now: float) -> Found:
    where = f"{network.host}:{network.port}"
    where += " (a proxy)" if network.is_proxy else ""
    for step, seconds in network.seconds.items():
        subject, fact, _ = _STEPS[step]
        evidence = f"{span_ms(seconds)}, {_detail(network, step, where)}"
        severity = Severity.WARN if seconds >= LIMITS.slow_step_seconds else Severity.OK
        cure = "measure it from the pod; look for a slow resolver, a long way or a busy server"
        yield _graded(severity, f"network_{step}", subject, fact, evidence, cure)
    if network.dead_addresses:
        evidence = f"{', '.join(network.dead_addresses[:4])} of {len(network.addresses)}"
        fact = "has addresses that do not answer"
        cure = "remove them from the name, or start the servers: each new connection tries them"
        yield warn("network_addresses", f"the name {network.host}", fact, evidence, cure)
    if network.certificate is not None:
        cure = "renew the certificate of the server: `kubeadm certs renew apiserver`"
        subject = "the server's certificate"
        yield _expiry("server_certificate", subject, network.certificate, now, cure)
    if network.error:
        subject, _, fact = _STEPS[network.step]
        evidence = f"{where}: {network.error}"
        hangs = network.is_timeout and network.step in {"tls", "request"}
        cure = _NOT_ANSWERED if hangs else _CURES[network.step]
        if network.tls_failure is not None and not hangs:
            cure = _TLS_CURES[network.tls_failure]
        yield trouble(f"network_{network.step}", subject, fact, evidence, cure)
    yield from _clock(network.clock_ahead_seconds)


def _detail(network: NetworkFacts, step: Step, where: str) -> str:
    if step == "lookup":
        return f"{network.host} is {', '.join(network.addresses[:4])}"
    return network.tls_version if step == "tls" else where


def _clock(ahead: float | None) -> Found:
    if ahead is None:
        return
    severity = grade(
        abs(ahead),
        warn_seconds=LIMITS.clock_warn_seconds,
        trouble_seconds=LIMITS.clock_trouble_seconds,
    )
    subject = "the clock of this host"
    if severity is Severity.OK:
        yield good("clock", subject, "agrees with the server's", "to the second")
        return
    side = "ahead of" if ahead > 0 else "behind"
    cure = "synchronise the clocks of this host and of the server"
    fact = f"is {span(abs(ahead))} {side} the server's"
    yield DiagnosisFinding(
        severity, "clock", subject, fact, "by the Date header of an answer", cure
    )


def _requests(facts: ServerFacts) -> Found:
    if facts.error:
        fact, cure = _REFUSED[facts.failure]
        yield trouble("requests", "requests with the credentials", fact, facts.error, cure)
    if facts.request_seconds is not None:
        is_slow = facts.request_seconds >= LIMITS.slow_step_seconds
        severity = Severity.WARN if is_slow else Severity.OK
        evidence = f"{span_ms(facts.request_seconds)}, the median of three"
        cure = "look for a busy server, or a long way to it"
        yield _graded(severity, "latency", "a small request", "is answered", evidence, cure)
    if facts.version:
        yield from _version(facts.version)


def _version(version: str) -> Found:
    subject, known = "the server", _VERSION.match(version)
    tested = ".".join(map(str, _TESTED))
    if known is None or known[1] == "0":  # as from a build without a version
        evidence = f"its version is {version}"
        yield good("version", subject, "has a version of its own", evidence)
        return
    number = int(known[1]), int(known[2])
    evidence = f"the library is tested with {tested}"
    if number < _WATCH_LIST_SINCE:
        evidence += "; it lists in pages where there is no watch-list"
    elif number > _TESTED:
        evidence += ", and uses stable APIs only"
    yield good("version", subject, f"is {version}", evidence)


def resource_findings(facts: ResourceFacts) -> list[DiagnosisFinding]:
    """Return the findings about one resource, in the order of the checks."""
    return [
        *_rights(facts),
        *_list(facts),
        *_version_of_list(facts),
        *_memory(facts),
        *_held(facts),
        *_watch_list(facts),
        *_bookmarks(facts),
        *_idle(facts),
    ]


def _subject(facts: ResourceFacts) -> str:
    if facts.namespaces is None:
        return str(facts.resource)
    return f"{facts.resource} in {', '.join(facts.namespaces)}"


def _rights(facts: ResourceFacts) -> Found:
    subject = "the rights"
    if facts.rights_error:
        cure = "grant `create` on selfsubjectaccessreviews.authorization.k8s.io, as by default"
        yield warn("rights", subject, "cannot be asked for", facts.rights_error, cure)
    missing = [one for one in facts.rights if not one.is_allowed]
    if missing:
        named = ", ".join(f"{one.verb}{_place(one.namespace)}" for one in missing)
        reasons = "; ".join(sorted({one.reason for one in missing if one.reason}))
        evidence = f"{named} may not be used{f': {reasons}' if reasons else ''}"
        fact = f"on {_subject(facts)} are missing"
        cure = "apply this Role, and bind it to the account of the program"
        yield DiagnosisFinding(
            Severity.TROUBLE, "rights", subject, fact, evidence, cure, missing_role(facts)
        )
    elif facts.rights:
        verbs = ", ".join(dict.fromkeys(one.verb for one in facts.rights))
        yield good("rights", subject, f"on {_subject(facts)} suffice", verbs)


def _place(namespace: str | None) -> str:
    return "" if namespace is None else f" in {namespace}"


def missing_role(facts: ResourceFacts) -> str:
    """Return the roles with the missing rights, as YAML."""
    needs = [
        Access(
            facts.resource.group,
            facts.resource.resource,
            _VERBS,  # a cache needs both, and a Role with one of them is not what is wanted
            None if one.namespace is None else {one.namespace},
        )
        for one in facts.rights
        if not one.is_allowed
    ]
    return roles_yaml(needs, name=_ROLE_NAME, service_account=None)


def _list(facts: ResourceFacts) -> Found:
    if facts.list_error:
        cure = "see the findings above: rights, connection, and whether the resource is served"
        yield trouble("list", f"a list of {_subject(facts)}", "fails", facts.list_error, cure)
    elif facts.list_seconds is not None:
        is_slow = facts.list_seconds >= LIMITS.slow_list_seconds
        total = "an unknown number" if facts.total is None else f"{facts.total:,}"
        evidence = f"{span_ms(facts.list_seconds)} for the first {facts.page_objects:,} of {total}"
        evidence += f" objects, {size(facts.page_bytes)}"
        severity = Severity.WARN if is_slow else Severity.OK
        cure = "follow fewer namespaces or selected objects, or memory='metadata'"
        subject = f"a list of {_subject(facts)}"
        yield _graded(severity, "list", subject, "is answered", evidence, cure)


def _version_of_list(facts: ResourceFacts) -> Found:
    if facts.list_seconds is None or facts.list_version:
        return
    subject, fact = f"a list of {_subject(facts)}", "has no resource version"
    if is_built_in(facts.resource.group):
        evidence = "no cache ever syncs with it: kube-apiserver gives each list a version"
        cure = "check what is between here and the server, and changes its answers"
        yield trouble("list_version", subject, fact, evidence, cure)
    else:
        evidence = "so it cannot be watched, and caches of it are listed again and again"
        cure = "ask the operator of this API for watches; or read it when it is needed"
        yield warn("list_version", subject, fact, evidence, cure)


def _memory(facts: ResourceFacts) -> Found:
    if not facts.memory:
        return
    count = facts.page_objects if facts.total is None else facts.total
    modes = [mode for mode in _MODES if mode in facts.memory]
    evidence = ", ".join(f"{mode} {size(round(facts.memory[mode] * count))}" for mode in modes)
    each = ", ".join(f"{facts.memory[mode] / _KIB:.1f}" for mode in modes)
    evidence += f"; KiB for each object: {each}"
    default = facts.memory.get("strip_managed_fields", 0.0) * count
    is_large = default >= LIMITS.memory_warn_bytes
    more = " at least" if facts.total is None else ""
    fact = f"takes about {size(round(default))}{more} in the default mode"
    severity = Severity.WARN if is_large else Severity.OK
    cure = "use memory='compact', or 'metadata' if the program does not read bodies"
    subject = f"a cache of {_subject(facts)}"
    yield _graded(severity, "memory", subject, fact, evidence, cure)


def _held(facts: ResourceFacts) -> Found:
    times = facts.held
    if times is None:
        return
    evidence = f"the response to a watch of {span(times.requested_seconds)} was opened after"
    evidence += f" {span_ms(times.opened_seconds)}"
    if times.line_seconds is not None:
        evidence += f", and its first line arrived after {span_ms(times.line_seconds)}"
    evidence += ": something on the way, or the server, holds it back, and caches learn of changes"
    evidence += " only by listing again"
    cure = (
        "disable the buffering of responses in the proxy before the server: in nginx,"
        " `proxy_buffering off; proxy_http_version 1.1;`"
    )
    fact = "delivers nothing before it has ended"
    yield warn("watch_held", f"a watch of {facts.resource}", fact, evidence, cure)


def _watch_list(facts: ResourceFacts) -> Found:
    subject = f"a watch-list of {facts.resource}"
    if facts.held is not None:
        return  # it shows only what holds back all watches
    if facts.watch_list_seconds is not None:
        yield good("watch_list", subject, "works", span_ms(facts.watch_list_seconds))
    elif facts.watch_list_error:
        cure = "nothing has to be done: informers list in pages instead, which costs more memory"
        yield warn("watch_list", subject, "does not work", facts.watch_list_error, cure)


def _bookmarks(facts: ResourceFacts) -> Found:
    subject = f"a watch of {facts.resource}"
    if facts.watch_error:
        cure = "see the findings above; a proxy that does not pass streams breaks watches as well"
        yield trouble("watch", subject, "fails", facts.watch_error, cure)
    elif facts.held is not None:
        return
    elif facts.bookmark_seconds is not None:
        evidence = f"the first after {span(facts.bookmark_seconds)}"
        yield good("bookmarks", subject, "receives bookmarks", evidence)
    elif facts.watch_list_seconds is not None and facts.watch_seconds:
        evidence = f"that of the watch-list; none in a quiet watch of {span(facts.watch_seconds)}:"
        evidence += " servers send one about once a minute, and none before the first change"
        yield good("bookmarks", subject, "receives bookmarks", evidence)
    elif facts.watch_seconds:
        evidence = f"none within {span(facts.watch_seconds)}, though the watch ended by its timeout"
        cure = "expect relists after quiet hours; ask the operator of this API for bookmarks"
        yield warn("bookmarks", subject, "receives no bookmarks", evidence, cure)


def _idle(facts: ResourceFacts) -> Found:
    if facts.idle_seconds is None:
        return
    subject = f"a silent watch of {facts.resource}"
    stayed = f"{span(facts.idle_seconds)} of {span(facts.idle_wanted_seconds)}"
    if facts.idle_error:
        cure = "raise the idle timeout of the load balancer or proxy before the server above 240 s"
        evidence = f"{stayed}: {facts.idle_error}"
        yield warn("idle_cut", subject, "is cut off", evidence, cure)
    else:
        yield good("idle_cut", subject, "stays open", stayed)


def span_ms(seconds: float) -> str:
    """Return a span that may be far below a second: `3 ms`."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1.0 else span(seconds)


def size(size_bytes: int) -> str:
    """Return a number of bytes for people: `53.8 MiB`."""
    left = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if left < _KIB:
            return f"{left:.0f} {unit}" if unit == "B" else f"{left:.1f} {unit}"
        left /= _KIB
    return f"{left:.1f} GiB"
