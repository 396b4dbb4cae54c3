"""What two texts say of each other by their words alone."""

import pytest

from mcp_memory.domain.text.conflicts import (
    changes_named,
    contradiction,
    has_one_target,
    is_near,
    is_same,
    otherwise,
    references,
    says_again,
    says_dropped,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Renamed --limit to --config, added --help-config", ["--limit"]),
        ("New --setting name value option as a replacement for --config name:value.", ["--config"]),
        ("The variable SQLITE_EXTENSIONS has been renamed to DATASETTE_LOAD_EXTENSION.", ["SQLITE_EXTENSIONS"]),
        ("The `canned_queries()` plugin hook has been removed.", ["canned_queries()"]),
        ("The legacy .jsono extension has been removed.", [".jsono"]),
        ("Die Option `max_rows` wurde entfernt.", ["max_rows"]),
        ("L'option `max_rows` a été supprimée.", ["max_rows"]),
        ("La opción `max_rows` ha sido eliminada.", ["max_rows"]),
        ("移除了 `max_rows`，`min_rows` 已删除。", ["max_rows", "min_rows"]),
        ("Commit 1a2b3c4d: Remove the deprecated `old_hook` hook", ["old_hook"]),
        # What its reader is told to do, words like others, what comes in its place, and what may happen.
        ("To upgrade, remove the `old_hook` setting.", []),
        ("Removed `title` and `request`.", []),
        ("We have not removed `max_rows` yet.", []),
        ("If `max_rows` is removed, the app breaks.", []),
        ("user_id is removed from the logs each night.", []),
        ("The format is superseded by `?_shape=`.", []),
        ("RenameTableEvent is fired when a table is renamed.", []),
        ("RESTIC_FROM_REPOSITORY is the source (replaces --from-repo).", []),
        ("Rename it to `_table.html`.", []),
    ],
)
def test_names_that_a_text_says_to_be_gone(text: str, names: list[str]) -> None:
    """N1.1: of a form of their own, in the words of several languages."""
    assert changes_named(text) == (tuple(names), [])


def test_a_record_that_tells_of_what_is_gone_is_contradicted() -> None:
    """N1.1: where it is near, has the name whole, and nobody has said so before."""
    new = changes_named("Renamed --limit to --config.")
    found = contradiction("A --limit option takes a list of limits.", new, 0.6)
    assert found
    assert found.why == '"--limit" is said to hold no longer'
    assert not contradiction("A --limit option takes a list of limits.", new, 0.4)
    assert not contradiction("A --limit-rows option takes a list of limits.", new, 0.9)
    assert not contradiction("A --limit option takes a list of limits.", new, 0.9, {"--limit"})
    assert not contradiction("Limits came from --limit previously.", new, 0.9)
    assert contradiction("Limits were a file previously. They come from --limit.", new, 0.9)


def test_a_title_that_is_taken_back_is_contradicted() -> None:
    """N1.1: whatever stands in front of it, and however far its meaning."""
    revert = changes_named('Commit 35429f90: Revert "New encode and decode functions"')
    found = contradiction("Commit 9fdb47ca: New encode and decode functions\n\nASGI needs them.", revert, 0.1)
    assert found
    assert found.certainty > 0.9
    assert revert.titles == ["New encode and decode functions"]
    assert not contradiction("Commit 9fdb47ca: New encode functions", revert, 0.1)
    asked = changes_named('Bob asked us not to revert "New encode and decode functions".')
    assert not contradiction("Commit 9fdb47ca: New encode and decode functions", asked, 0.9)


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Sessions expire after 15 minutes.", "Sessions expire after 30 minutes.", '"15" there, "30" here'),
        ("MV Liselotte's flag is Malta.", "MV Liselotte's flag is Panama.", '"malta" there, "panama" here'),
        (
            "The ship sails under the flag of Malta.",
            "The ship sails under the flag of Peru.",
            '"malta" there, "peru" here',
        ),
        ("Die Frist ist zwei Wochen.", "Die Frist ist drei Wochen.", None),
        ("日志保留 30 天。", "日志保留 90 天。", None),
        ("The owner of billing is Priya.", "The owner of billing is Tomas.", '"priya" there, "tomas" here'),
        ("The timeout of the geocoder is 5 s.", "The timeout of the geocoder is 9 s.", '"5" there, "9" here'),
        (
            "The kiosk closes at 18:00 on Fridays.",
            "The kiosk closes at 17:30 on Fridays.",
            '"18:00" there, "17:30" here',
        ),
        ("A battery lasts 4 hours.", "A battery lasts 6 hours.", '"4" there, "6" here'),
        ("A battery lasts 4 hours here.", "A battery lasts 6 minutes here.", None),
        ("The ship carries 220 sheep.", "The ship carries 250 sheep.", None),
        ("The door is not shut.", "The door is shut.", "one denies what the other says"),
        # What may be so on another day, or of another thing.
        ("I ate 3 apples in Bern.", "I ate 5 apples in Bern.", None),
        ("Anna has 3 dogs in Rome and Bern.", "Anna has 5 cats in Rome and Bern.", None),
        ("The cat in the garden is black.", "The cat in the garden is asleep.", None),
        ("Anna likes the music of Bach.", "Anna likes the music of Mozart.", None),
        ("Room 5 is on floor no 2.", "Room 5 is on floor 2.", None),
        ("Server 1: the owner is Priya.", "Server 2: the owner is Tomas.", None),
        ("The scheduler is idempotent.", "The scheduler is not idempotent.", "one denies what the other says"),
        (
            "Gäste dürfen den Drucker nutzen.",
            "Gäste dürfen den Drucker nicht nutzen.",
            "one denies what the other says",
        ),
        # A version or a date in front is no value.
        ("Datasette 0.28: Now on PyPI as a wheel.", "Datasette 0.29: Now on PyPI as a wheel.", None),
        ("2024-05-01: The gate is open until ten.", "2024-06-01: The gate is open until ten.", None),
        ("After a power cut elk-4 needs its date set.", "After a power cut elk-2 needs its date set.", None),
        ("Acme Foods asked for invoice 7.", "Acme Foods asked for invoice 8.", None),
        ("Notes for release 5.2 list 26 changes.", "Notes for release 6.8 list 26 changes.", None),
        # Another subject, another object of several, more than one place, too few words, a long text.
        ("Staging keeps logs for 30 days.", "Production keeps logs for 30 days.", None),
        ("30 days is the limit of staging.", "90 days is the limit of staging.", None),
        ("Olga speaks German.", "Olga speaks Spanish.", None),
        ("Leave out drafts of payroll.", "Leave out drafts of parcels.", None),
        ("Olga is the lead of search.", "Olga is the lead of payments.", None),
        ("The gate opens at 8 and shuts at 10.", "The gate opens at 9 and shuts at 11.", None),
        ("Tea: 3", "Tea: 4", None),
        ("The gate opens at 8 for those who live beside it.", "The gate opens at 8.", None),
        ("word " * 70 + "8", "word " * 70 + "9", None),
    ],
)
def test_the_same_words_with_one_other_value_contradict(old: str, new: str, why: str | None) -> None:
    """N1.1: where the subject is the same beyond doubt."""
    found = otherwise(old, new)
    assert (found.why if found else None) == why


def test_texts_say_the_same_by_meaning_words_and_values() -> None:
    """R2: a value or a denial on one side tells them apart."""
    assert is_same("The gate is open.", "The gate is open!", 0.99)
    assert is_same("The harbour gate stays open till ten.", "Till ten the harbour gate stays open.", 0.92)
    assert not is_same("The harbour gate stays open till ten.", "Nobody shuts our port before ten.", 0.92)
    assert not is_same("The gate opens at 8.", "The gate opens at 9.", 0.99)
    assert not is_same("The gate is open.", "The gate is not open.", 0.99)
    assert not is_same("?", "!", 0.92)


def test_a_text_refers_to_issues_and_quoted_titles() -> None:
    """N1.1: as they are written; a short quotation is no title, and "utf-8" no issue."""
    text = 'Lang triage, "Stabilize `let else`" rust#93628: merged; see OPS-142, utf-8 and the "best" one. rust#93628'
    assert [*references(text)] == ["rust#93628", "OPS-142", "Stabilize `let else`"]
    assert [*references("Nothing is decided.")] == []


def test_texts_of_one_thing_are_near() -> None:
    """N1.1: long ones by their meaning, short ones by their words as well."""
    long = "The gate of the harbour is opened by the port office. " * 4
    assert is_near(long, long, 0.93)
    assert not is_near(long, long, 0.9)
    assert is_near("Payments listens on port 8443.", "Port of payments: 9443", 0.7)
    assert not is_near("Payments listens on port 8443.", "Port of payments: 9443", 0.6)
    assert not is_near("Payments listens on port 8443.", "Invoices are sent in May.", 0.7)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The maximum upload size is 20 MB.", True),
        ("Uploads are limited to 50 MB, not 20 MB.", False),
        ("20 MB was too little, uploads may have more.", False),
        ("Uploads are no longer limited to 20 MB.", False),
        ("Uploads go to Frankfurt.", False),
    ],
)
def test_a_text_says_a_dropped_value_alone(text: str, expected: bool) -> None:
    """W5.1: without the new one, and not that it ended."""
    assert says_dropped(text, "Uploads may be at most 20 MB.", "Uploads may be at most 50 MB.") is expected


def test_the_endings_of_japanese_words_are_no_values() -> None:
    """W5.1."""
    assert says_dropped(
        "Wi-Fiのことは田中さんが管理している。", "管理者は田中さんです。", "管理者は鈴木さんに変わりました。"
    )


def test_a_text_says_former_words_again_where_it_is_near_and_of_the_same_subject() -> None:
    """W5.1: another word at the same place names another subject."""
    old = "Uploads may be at most 20 MB."
    assert says_again("The maximum upload size is 20 MB.", old, 0.8)
    assert not says_again("The maximum upload size is 20 MB.", old, 0.6)
    assert not says_again("Downloads may be at most 20 MB.", old, 0.8)
    assert not says_again("Uploads may not be 20 MB.", old, 0.8)


def test_some_relations_have_one_target() -> None:
    """N1.1."""
    assert has_one_target("lives_in")
    assert not has_one_target("uses")
