"""Quotas: calls are counted by the minute, and what a call would store beyond one is refused with the remedy."""

from collections.abc import Callable

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.quotas import Quota
from mcp_memory.domain.model.records import NewRecord
from mcp_memory.errors import InvalidRequest, QuotaReached
from mcp_memory.services.access.quotas import KNOWN_SECONDS
from tests.conftest import Clock

HERE = "namespace/test"


def test_calls_are_counted_by_the_minute(app: App, clock: Clock) -> None:
    """M3.3: of each project, and with the time after which there is room again."""
    app.quotas.count_call("test")
    app.quotas.put(Quota(partition=HERE, calls=2))
    for _ in range(2):
        clock.advance(seconds=15)
        app.quotas.count_call("test")
    with pytest.raises(QuotaReached, match="'test' made 2 calls in a minute, of at most 2; call again in 45 seconds"):
        app.quotas.count_call("test")
    app.quotas.count_call("other")
    clock.advance(seconds=45)
    app.quotas.count_call("test")
    with pytest.raises(QuotaReached, match="in 15 seconds"):
        app.quotas.count_call("test")
    app.quotas.put(Quota(partition=HERE, calls=0))
    clock.advance(seconds=60)
    with pytest.raises(QuotaReached, match="made 0 calls in a minute, of at most 0; call again in 60 seconds"):
        app.quotas.count_call("test")


def test_another_servers_change_counts_soon(app: App, open_memory: Callable[..., App], clock: Clock) -> None:
    app.quotas.count_call("test")
    open_memory().quotas.put(Quota(partition=HERE, calls=0))
    app.quotas.count_call("test")
    clock.advance(seconds=KNOWN_SECONDS)
    with pytest.raises(QuotaReached):
        app.quotas.count_call("test")


def test_a_limit_that_is_set_leaves_the_others(app: App) -> None:
    for given in ({"records": 5}, {"calls": 2}):
        app.quotas.limit("test", given)
    app.quotas.limit("ann", {"bytes": 9}, is_person=True)
    limits = [quota for quota, _ in app.quotas.all()]
    assert limits == [Quota(partition=HERE, records=5, calls=2), Quota(partition="user/ann", bytes=9)]
    app.quotas.limit("test", {"records": 4}, drops=True)
    app.quotas.limit("ann", {}, is_person=True, drops=True)
    assert [quota for quota, _ in app.quotas.all()] == [Quota(partition=HERE, records=4)]


def test_a_quota_that_makes_no_sense_is_refused(app: App) -> None:
    with pytest.raises(InvalidRequest, match="0 or more"):
        app.quotas.put(Quota(partition=HERE, records=-1))
    with pytest.raises(InvalidRequest, match="by project"):
        app.quotas.put(Quota(partition="user/ann", calls=1))


def test_what_goes_beyond_a_quota_is_refused_whole(app: App) -> None:
    """M3.3: what is there is found and changed as before; what is the owner's own counts apart."""
    (first,) = app.remember([NewRecord(text="The ferry leaves at eight.")], app.caller())
    app.quotas.put(Quota(partition=HERE, records=1))
    app.quotas.put(Quota(partition="user", bytes=5))
    two = [NewRecord(text="The ferry is white."), NewRecord(text="The ferry is old.")]
    with pytest.raises(QuotaReached, match="The project 'test' holds 1 of at most 1 records, and this is 2 more"):
        app.remember(two, app.caller())
    with pytest.raises(QuotaReached, match="to the owner holds 0 of at most 5 bytes"):
        app.remember([NewRecord(text="I like ferries.", visibility="user")], app.caller())
    assert [(quota.partition, used.records) for quota, used in app.quotas.all()] == [(HERE, 1), ("user", 0)]
    app.forget([first.id], "erase", app.caller())
    app.remember(two[:1], app.caller())
