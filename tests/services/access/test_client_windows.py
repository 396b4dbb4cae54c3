"""Each window of an agent has a place of its own; the next one goes on where an ended one was."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mcp_memory.app import App
from mcp_memory.domain.model.scopes import Caller
from mcp_memory.domain.model.tasks import Stack
from mcp_memory.errors import Conflict, NotFound, StoreUnavailable
from mcp_memory.services.access import client_windows
from mcp_memory.services.access.client_windows import IDLE_SECONDS, RETURN_SECONDS, ClientWindows
from mcp_memory.stores import process_locks
from mcp_memory.stores.process_locks import FileProcessLocks
from tests.conftest import Clock
from tests.services.tasks.moves import goals, insist, pop, push

Open = Callable[..., App]


def here(app: App, session: str = "") -> Caller:
    """The caller as its window has it: each `app` is a process of its own."""
    return app.windows.placed(app.caller(), session)


def stands(app: App, session: str = "") -> list[str]:
    return goals(app.tasks.stack(here(app, session)))


def test_two_windows_of_one_agent_do_not_move_each_other(open_memory: Open) -> None:
    """N5.3: nobody names a session."""
    one, two = open_memory(), open_memory()
    push(one, "ship", here(one))
    assert goals(push(two, "draw", here(two))) == ["draw"]
    assert pop(one, caller=here(one)).popped.goal == "ship"
    assert stands(two) == ["draw"]


def test_a_new_window_goes_on_where_the_ended_one_was(open_memory: Open) -> None:
    """N5.3, T3.1: and the one after it, however each ended."""
    one = open_memory()
    push(one, "ship", here(one))
    push(one, "build", here(one))
    one.close()
    two = open_memory()
    assert stands(two) == ["ship", "build"]
    pop(two, caller=here(two))
    two.close()
    assert stands(open_memory()) == ["ship"]


def test_a_window_that_left_beside_a_live_one_is_followed_by_the_next(open_memory: Open) -> None:
    """N5.3: one of two clients starts its server anew."""
    one, two = open_memory(), open_memory()
    push(one, "ship", here(one))
    push(two, "draw", here(two))
    two.close()
    assert stands(open_memory()) == ["draw"]
    assert stands(one) == ["ship"]


def test_where_several_were_left_a_new_window_is_told_of_them(open_memory: Open) -> None:
    """N5.3: it stands nowhere, and enters by id the one that it means."""
    one, two = open_memory(), open_memory()
    ship = push(one, "ship", here(one)).path[0]
    push(two, "draw", here(two))
    one.close()
    two.close()
    new = open_memory()
    assert stands(new) == []
    with pytest.raises(NotFound, match=r"Open are yours: .*\(ship\).*push_task with task_id resumes one"):
        pop(new, caller=here(new))
    stack = push(new, "other", here(new))
    assert {task.goal for task in new.tasks.left_open(here(new), stack)} == {"ship", "draw"}
    assert goals(push(new, "", here(new), task_id=ship.id)) == ["ship"]
    new.close()
    assert stands(open_memory()) == []  # "ship" and "draw", which nobody has ended


def test_a_place_left_long_before_the_latest_is_not_meant(open_memory: Open, clock: Clock) -> None:
    """N5.3: two windows were open a week ago."""
    one, two = open_memory(), open_memory()
    push(one, "ship", here(one))
    push(two, "draw", here(two))
    one.close()
    two.close()
    clock.advance(days=7)
    three = open_memory()
    push(three, "", here(three), task_id=three.tasks.tree(three.caller())[1].id)
    three.close()
    assert stands(open_memory()) == ["draw"]


def test_a_place_left_long_before_other_work_ended_is_not_meant(open_memory: Open, clock: Clock) -> None:
    """N5.3: one of two windows was left a week ago; the other has ended its task today."""
    one, two = open_memory(), open_memory()
    push(one, "ship", here(one))
    push(two, "draw", here(two))
    two.close()
    clock.advance(days=7)
    pop(one, caller=here(one))
    one.close()
    assert stands(open_memory()) == []


def test_two_places_in_one_task_are_one(open_memory: Open) -> None:
    """N5.3: of a goal that was resumed by its id, the former place is left, too."""
    one, two = open_memory(), open_memory()
    ship = push(one, "ship", here(one)).path[0]
    push(two, "draw", here(two))
    one.close()
    two.close()
    three = open_memory()
    push(three, "", here(three), task_id=ship.id)
    pop(three, "given up", here(three), task_id=three.tasks.tree(three.caller())[1].id)
    three.close()
    assert stands(open_memory()) == ["ship"]


def test_a_task_that_another_live_window_is_in_is_entered_by_taking_it_over(open_memory: Open) -> None:
    """N5.2, N5.3: once that has ended, nobody is asked; the one that stood there is told."""
    one, two = open_memory(), open_memory()
    ship = push(one, "ship", here(one)).path[0]
    with pytest.raises(Conflict, match=r"another window or session of yours is in t\w+ \(ship\) since .*takeover"):
        push(two, "", here(two), task_id=ship.id)
    push(two, "", here(two), task_id=ship.id, takeover=True)
    [change] = one.tasks.stack(here(one)).news
    assert (change.by_agent, change.deed, change.goal) == ("default", "took over", "ship")
    assert insist(one, caller=here(one)).popped.goal == "ship"
    [change] = two.tasks.stack(here(two)).news
    assert change.deed == "ended"
    ship = push(one, "again", here(one)).path[0]
    one.close()
    assert goals(push(two, "", here(two), task_id=ship.id)) == ["again"]


def test_a_cascade_stops_where_another_window_stands(open_memory: Open) -> None:
    """N5.2: in a subtask of the goal that ends."""
    one, two = open_memory(), open_memory()
    ship = push(one, "ship", here(one), plan=("pack",)).path[0]
    push(two, "build", here(two), parent_id=ship.id)
    popped = pop(one, caller=here(one), cascade=True)
    assert [task.goal for task in popped.cascaded] == ["pack"]
    assert [task.goal for task in popped.left] == ["build"]
    assert stands(two) == ["ship", "build"]
    assert pop(two, caller=here(two)).stack == Stack()


def test_sessions_over_one_server_are_windows_that_end(open_memory: Open, clock: Clock) -> None:
    """N5.3: by being told, by being idle, or with the server."""
    server = open_memory()
    push(server, "ship", here(server, "h1"))
    assert stands(server, "h2") == []
    server.windows.end("default", "h2")
    server.windows.end("default", "h1")
    assert stands(server, "h3") == ["ship"]
    clock.advance(seconds=IDLE_SECONDS + 1)
    assert not server.keep_up(maintains=False)
    assert stands(open_memory()) == ["ship"]
    assert stands(server, "h4") == []


def test_sessions_that_were_idle_go_on_where_each_was(open_memory: Open, clock: Clock) -> None:
    """N5.3: clients that listen keep their sessions over lunch; an ended one has no claim."""
    server = open_memory()
    for number in range(3):
        push(server, f"goal {number}", here(server, f"h{number}"))
    clock.advance(seconds=IDLE_SECONDS + 1)
    assert not server.keep_up(maintains=False)
    assert stands(server, "h1") == ["goal 1"]
    server.windows.end("default", "h2")
    assert stands(server, "h2") == []
    assert stands(server, "h0") == ["goal 0"]


def test_a_server_remembers_the_places_of_so_many_idle_sessions(
    open_memory: Open, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """N5.3: of the latest; the others are told of what was left."""
    monkeypatch.setattr(client_windows, "REMEMBERED", 1)
    server = open_memory()
    for session in ("h0", "h1"):
        push(server, f"goal of {session}", here(server, session))
        clock.advance(seconds=1)
    clock.advance(seconds=IDLE_SECONDS)
    assert stands(server, "h0") == []
    assert stands(server, "h1") == ["goal of h1"]


def test_a_process_over_stdio_is_never_idle(open_memory: Open, clock: Clock) -> None:
    """N5.3: its user may be away."""
    one = open_memory()
    push(one, "ship", here(one))
    clock.advance(days=3)
    assert not one.keep_up(maintains=False)
    assert stands(open_memory()) == []


def test_a_window_that_shares_a_process_is_never_idle(open_memory: Open, clock: Clock) -> None:
    """N5.3: its own process is there, though another serves it."""
    app = open_memory()
    shared = app.windows.placed(app.caller(), "s1", stays=True)
    push(app, "ship", shared)
    clock.now += 2 * IDLE_SECONDS
    assert stands(open_memory()) == []
    assert goals(app.tasks.stack(app.windows.placed(app.caller(), "s1", stays=True))) == ["ship"]


def test_a_window_has_the_place_again_that_another_process_gave_it(open_memory: Open) -> None:
    """N5.3: though a new window might have gone on there."""
    first = open_memory()
    windows = [first.windows.placed(first.caller(), session, stays=True) for session in ("s1", "s2")]
    push(first, "ship", windows[0])
    push(first, "draw", windows[1])
    places = [first.windows.place_of(session) for session in ("s1", "s2")]
    assert first.windows.place_of("s3") is None
    assert places == [window.window for window in windows]
    first.close()
    second = open_memory()
    for session, place in zip(("s1", "s2"), places, strict=True):
        assert place is not None
        second.windows.come_back(second.caller(), session, place)
    assert [stands(second, session) for session in ("s1", "s2")] == [["ship"], ["draw"]]


def test_a_window_that_comes_back_gets_its_place_from_a_new_one_that_was_there_first(
    open_memory: Open, clock: Clock
) -> None:
    """N5.3: the process of both was killed, and the new one's first call came before the old one was back."""
    first = open_memory()
    push(first, "ship", first.windows.placed(first.caller(), "old", stays=True))
    place = first.windows.place_of("old")
    assert place is not None
    first.close()
    second = open_memory()
    assert goals(second.tasks.stack(second.windows.placed(second.caller(), "new", stays=True))) == ["ship"]
    clock.advance(seconds=2)
    assert second.windows.come_back(second.caller(), "old", place).window == place
    assert (stands(second, "old"), stands(second, "new")) == (["ship"], [])
    assert second.windows.place_of("new") not in {None, place}
    assert second.windows.come_back(second.caller(), "other", place).window != place


def test_a_window_that_comes_back_late_leaves_its_place_to_the_one_that_went_on_there(
    open_memory: Open, clock: Clock
) -> None:
    """N5.3: as where its process stood still for long."""
    first = open_memory()
    push(first, "ship", first.windows.placed(first.caller(), "old", stays=True))
    place = first.windows.place_of("old")
    assert place is not None
    first.close()
    second = open_memory()
    second.windows.placed(second.caller(), "new", stays=True)
    clock.advance(seconds=2 * RETURN_SECONDS)
    assert second.windows.come_back(second.caller(), "old", place).window != place
    assert stands(second, "new") == ["ship"]


def test_a_hook_beside_the_agents_one_window_stands_where_that_does(open_memory: Open) -> None:
    """N5.3: also before the window ever called; of several it takes none."""
    hook, one = open_memory(), open_memory()
    push(one, "ship", here(one))

    def at(*, opens: bool) -> list[str]:
        return goals(hook.tasks.stack(hook.windows.beside(hook.caller(), opens=opens)))

    assert (at(opens=False), at(opens=True)) == (["ship"], [])
    two = open_memory()
    push(two, "draw", here(two))
    assert (at(opens=False), at(opens=True)) == ([], [])
    one.close()
    assert (at(opens=False), at(opens=True)) == (["draw"], ["ship"])
    two.close()
    assert (at(opens=False), at(opens=True)) == ([], [])
    pop(hook, "done", task_id=hook.tasks.tree(hook.caller())[0].id)
    assert (at(opens=False), at(opens=True)) == (["draw"], ["draw"])


def test_a_window_beyond_a_gap_is_seen(open_memory: Open) -> None:
    """N5.3: the first two have left, the third is there."""
    hook, *windows = [open_memory() for _ in range(4)]
    for number, each in enumerate(windows):
        push(each, f"goal {number}", here(each))
    windows[0].close()
    windows[1].close()
    beside = hook.windows.beside(hook.caller(), opens=False)
    assert goals(hook.tasks.stack(beside)) == ["goal 2"]


def test_windows_stay_where_they_are_when_their_project_is_renamed(open_memory: Open, clock: Clock) -> None:
    """N5.3, P4.1: also a session that is idle, and whichever calls first."""
    one, two, other = open_memory(), open_memory(), open_memory(namespace="elsewhere")
    push(one, "ship", here(one))
    push(two, "draw", here(two))
    push(one, "wait", here(one, "s1"))
    clock.advance(seconds=IDLE_SECONDS + 1)
    assert [stands(one), stands(two)] == [["ship"], ["draw"]]
    other.projects.rename("test", "new")
    assert [stands(two), stands(one), stands(one, "s1")] == [["draw"], ["ship"], ["wait"]]
    elsewhere = replace(one.caller(), namespace="third")
    assert goals(push(one, "begin", one.windows.placed(elsewhere, "s1"))) == ["begin"], (
        "in another project, not below it"
    )


def test_where_locks_do_not_work_windows_share_their_agents_place(open_memory: Open, tmp_path: Path) -> None:
    """N5.3: as a memory on a folder that nobody may write has them."""
    app = open_memory()
    (tmp_path / "none").write_text("in the way")
    without = ClientWindows(app.records, FileProcessLocks(tmp_path / "none"), lambda: 1.0)
    caller = app.caller()
    assert without.placed(caller) == without.beside(caller, opens=True) == caller
    assert without.elsewhere(replace(caller, window="x"), {"": "t1"}) == ()
    with pytest.raises(StoreUnavailable, match="Locks do not work"):
        FileProcessLocks(tmp_path / "none").take("a")


def test_a_choice_that_never_ends_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """N5.3: a process that hangs holds up no other."""
    monkeypatch.setattr(process_locks, "PATIENCE_SECONDS", 0.01)
    locks = FileProcessLocks(tmp_path)
    with locks.choice(), pytest.raises(StoreUnavailable, match=r"keeps .* locked"), FileProcessLocks(tmp_path).choice():
        raise AssertionError
    with locks.choice():
        assert locks.take("a")
