"""What is renewed when: in each history, every replica shows what the API server trusts."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyinformer.admission.certificates import Material, renewed

_NAMES = ("db.acme.svc", "db.acme.svc.cluster.local", "10.0.0.1")
_NOW = 1_800_000_000.0
_DAY = 86_400.0
_LEAF_DAYS = 90
_AUTHORITY_DAYS = 3650


def _trusts_all(_: str) -> bool:
    return True


def _trusts_none(_: str) -> bool:
    return False


def _made(now: float = _NOW) -> Material:
    made = renewed(None, is_lost=True, names=_NAMES, now=now, is_published=_trusts_none)
    assert made is not None
    return made


def _step(
    known: Material,
    *,
    days: float,
    trusted: bool = True,
    is_lost: bool = False,
    names: tuple[str, ...] = _NAMES,
) -> Material | None:
    return renewed(
        known,
        is_lost=is_lost,
        names=names,
        now=_NOW + days * _DAY,
        is_published=_trusts_all if trusted else _trusts_none,
    )


def test_what_is_new_stays() -> None:
    made = _made()
    assert len(made.authorities) == 1
    assert not made.is_waiting
    assert all(map(made.leaf.certificate.covers, _NAMES))
    assert not made.leaf.certificate.covers("other.acme.svc")
    assert _step(made, days=59.9) is None


def test_a_leaf_is_renewed_at_two_thirds_of_its_life() -> None:
    made = _made()
    after = _step(made, days=60.1, trusted=False)
    assert after is not None
    assert after.authorities == made.authorities
    assert after.leaf.certificate.expires_at == _NOW + (60.1 + _LEAF_DAYS) * _DAY


def test_a_leaf_with_other_names_is_renewed_at_once() -> None:
    after = _step(_made(), days=1, names=("renamed.acme.svc",))
    assert after is not None
    assert after.leaf.certificate.covers("renamed.acme.svc")


def test_a_new_authority_is_published_before_it_signs() -> None:
    at_days = _AUTHORITY_DAYS * 2 / 3 + 1
    old = _made()
    added = _step(old, days=at_days)
    assert added is not None
    assert added.authorities[1:] == old.authorities
    assert added.is_waiting
    assert added.leaf.certificate.is_signed_by(old.authorities[0])
    assert _step(added, days=at_days + _LEAF_DAYS - 1, trusted=False) is None

    switched = _step(added, days=at_days + 1)
    assert switched is not None
    assert switched.authorities == added.authorities
    assert not switched.is_waiting
    assert _step(switched, days=at_days + 9) is None

    settled = _step(switched, days=at_days + 11)
    assert settled is not None
    assert settled.authorities == added.authorities[:1]
    assert settled.leaf == switched.leaf


def test_what_is_never_published_is_shown_when_nothing_else_is_left() -> None:
    at_days = _AUTHORITY_DAYS * 2 / 3 + 1
    added = _step(_made(), days=at_days)
    assert added is not None
    switched = _step(added, days=at_days + _LEAF_DAYS + 1, trusted=False)
    assert switched is not None
    assert not switched.is_waiting


def test_after_the_end_of_an_authority_everything_is_made_again() -> None:
    old = _made()
    after = _step(old, days=_AUTHORITY_DAYS + 1, trusted=False)
    assert after is not None
    assert len(after.authorities) == 1
    assert after.authorities != old.authorities


def test_a_lost_secret_gets_a_new_authority_beside_the_old_one() -> None:
    old = _made()
    after = _step(old, days=1, is_lost=True)
    assert after is not None
    assert after.authorities[1:] == old.authorities
    assert after.is_waiting
    # Lost again, and not published yet, or not settled: it is written as it was.
    assert _step(after, days=1, is_lost=True, trusted=False) == after
    switched = _step(after, days=1)
    assert switched is not None
    assert _step(switched, days=1, is_lost=True) == switched


def test_an_authority_whose_end_is_near_does_not_sign_beyond_it() -> None:
    made = _made()
    near = replace(made, authorities=made.authorities * 2)  # as if a rotation were under way
    after = _step(near, days=_AUTHORITY_DAYS - 1)
    assert after is not None
    assert after.leaf.certificate.expires_at == made.authorities[0].expires_at


def test_a_secret_is_read_as_it_was_written() -> None:
    added = _step(_made(), days=1, is_lost=True)
    assert added is not None
    assert Material.read(added.data()) == added
    assert Material.read({}) is None
    assert Material.read({"tls.crt": "", "other": "x"}) is None


def _swapped(data: dict[str, str], other: dict[str, str]) -> list[dict[str, str]]:
    return [{**data, name: other[name]} for name in data]


def test_what_something_else_wrote_is_not_read() -> None:
    data, other = _made().data(), _made().data()
    texts = [base64.b64encode(text).decode() for text in (b"", b"no certificate")]
    for spoiled in (
        *_swapped(data, other),
        *({**data, name: text} for name in data for text in (*texts, "no base64")),
        *({key: value for key, value in data.items() if key != name} for name in data),
    ):
        with pytest.raises(ValueError, match="must"):
            Material.read(spoiled)


def test_no_key_is_shown() -> None:
    made = _made()
    secret = made.leaf.key_pem.decode().splitlines()[1]
    assert secret not in repr(made)
    assert secret not in repr(made.leaf)


class _View(NamedTuple):
    """What a replica has read."""

    material: Material | None
    version: int


class _Replicas(RuleBasedStateMachine):
    """A Secret, three replicas that follow it late, one of which leads, and a published bundle."""

    @initialize()
    def begin(self) -> None:
        self.now = _NOW
        self.secret: Material | None = None
        self.version = 0
        self.views = [_View(None, 0)] * 3
        self.leader = 0
        self.published = ""
        self.unpublished_days = 0.0
        self.renew()
        for replica in range(3):
            self.read(replica)
        self.publish()

    @rule(replica=st.integers(0, 2))
    def read(self, replica: int) -> None:
        """A lost Secret stays in memory."""
        known = self.secret or self.views[replica].material
        self.views[replica] = _View(known, self.version)

    @rule()
    def renew(self) -> None:
        view = self.views[self.leader]
        if view.version != self.version:  # the server refuses the write
            return
        wanted = renewed(
            view.material,
            is_lost=self.secret is None,
            names=_NAMES,
            now=self.now,
            is_published=lambda authority: authority in self.published,
        )
        if wanted is not None:
            self.secret = wanted
            self.version += 1

    @rule()
    def publish(self) -> None:
        self.read(self.leader)
        material = self.views[self.leader].material
        assert material is not None
        self.published = material.bundle
        self.unpublished_days = 0.0

    @rule(times=st.integers(1, 5))
    def work(self, times: int) -> None:
        """The leader alone sees what it does."""
        for _ in range(times):
            self.read(self.leader)
            self.renew()
            self.publish()

    @rule(replica=st.integers(0, 2))
    def lead(self, replica: int) -> None:
        self.leader = replica

    @precondition(lambda self: self.secret is not None)
    @rule()
    def lose(self) -> None:
        for replica in range(3):  # a replica that never saw it has nothing to keep
            self.read(replica)
        self.secret = None
        self.version += 1

    @rule(days=st.floats(0.0, 8.0), times=st.integers(1, 20))
    def pass_time(self, days: float, times: int) -> None:
        """A replica is behind by less than the time after which an authority goes."""
        for _ in range(times):
            self.now += days * _DAY
            self.unpublished_days += days
            for replica in range(3):
                self.read(replica)
            if self.unpublished_days > 60:
                self.publish()
            self.renew()
            self.every_replica_is_trusted()

    @rule()
    def jump(self) -> None:
        """The program was down for years, and the Secret is still there."""
        self.now += 2500 * _DAY
        for _ in range(3):
            self.read(self.leader)
            self.renew()
            self.publish()
        for replica in range(3):
            self.read(replica)

    @invariant()
    def every_replica_is_trusted(self) -> None:
        for view in self.views:
            if view.material is None:
                continue
            leaf = view.material.leaf.certificate
            assert leaf.begins_at <= self.now < leaf.expires_at
            trusted = [one for one in view.material.authorities if one.pem in self.published]
            assert any(map(leaf.is_signed_by, trusted))

    @invariant()
    def there_are_at_most_two_authorities(self) -> None:
        assert self.secret is None or len(self.secret.authorities) <= 2


TestReplicas = _Replicas.TestCase
TestReplicas.settings = settings(max_examples=25, stateful_step_count=30)
