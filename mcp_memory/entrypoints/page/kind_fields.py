"""The fields of a kind of record beside its text, as a form asks for them, and what a guardrail does with calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from mcp_memory.domain.model.lifecycle import denies
from mcp_memory.domain.retrieval.guardrails import forms_of, has_form, trigger_of
from mcp_memory.domain.text.prompt_safety import is_own

if TYPE_CHECKING:
    from mcp_memory.domain.model.records import Details, Json, Kind, Record
    from mcp_memory.entrypoints.page.visits import Visit

PREFIX: Final = "details_"
"""Begins the names of these fields in a form, which has a reason and a name of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KindField:
    """One field of a form: the detail that it fills, and its words. `lines` has one value on each line."""

    detail: str
    label: str
    hint: str = ""
    shape: Literal["line", "lines", "choice"] = "line"
    choices: Sequence[tuple[str, str]] = ()
    """Values of a choice, each with its words; a record that says none has the first."""

    @property
    def name(self) -> str:
        return PREFIX + self.detail

    def shown(self, details: Details) -> str:
        """Return the field's text for these details."""
        value = details.get(self.detail)
        if self.shape == "choice":
            return str(value or self.choices[0][0])
        if isinstance(value, Sequence) and not isinstance(value, str):
            return "\n".join(str(each) for each in value)
        return "" if value is None else str(value)

    def read(self, text: str) -> Json:
        """Return the detail that a field's text gives."""
        if self.shape == "lines":
            return [line.strip() for line in text.split("\n") if line.strip()]
        return text.strip()


KIND_FIELDS: Final[Mapping[Kind, Sequence[KindField]]] = {
    "decision": (
        KindField(detail="reasons", label="Why was it decided? One reason per line", shape="lines"),
        KindField(detail="alternatives", label="What was rejected? One alternative per line", shape="lines"),
    ),
    "procedure": (
        KindField(detail="name", label="Name of the procedure"),
        KindField(detail="description", label="What is it for?"),
    ),
    "censor": (
        KindField(
            detail="action",
            label="When a tool call matches",
            shape="choice",
            choices=(("warn", "warn the agent"), ("block", "deny the call")),
        ),
        KindField(
            detail="pattern",
            label="Calls that match, one pattern per line",
            hint="`rm -rf build/*` is a command, `migrations/*.sql` a file that a tool changes, `Read(secrets/*)` one"
            " tool on these files. `*` matches anything.",
            shape="lines",
        ),
        KindField(
            detail="trigger",
            label="Trigger: words of the work that it is about",
            hint="If no pattern is given, a call matches when it contains all the words (two or more).",
        ),
        KindField(detail="reason", label="Reason, which the agent is told"),
    ),
}
"""The fields of each kind that has any, in the order of the form."""


def shown_fields(details: Details, kind: Kind) -> dict[str, str]:
    """Return the texts of a kind's fields, by their names in the form."""
    return {field.name: field.shown(details) for field in KIND_FIELDS.get(kind, ())}


def read_fields(said: Mapping[str, str], kind: Kind) -> dict[str, Json]:
    """Return the details that the fields of a kind give; those that a form does not hold are left out."""
    return {field.detail: field.read(said[field.name]) for field in KIND_FIELDS.get(kind, ()) if field.name in said}


def may_say_fields(visit: Visit, record: Record) -> bool:
    """Return True where the visitor may change the fields of a record's kind.

    A guardrail denies the calls of the agent that wrote it, so that no other agent's person says which these are.
    """
    return record.kind != "censor" or visit.may("admin") or is_own(record, visit.caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardrailEffect:
    """Tells in words what a guardrail does with calls of tools; `forms` are those of calls that match."""

    does: str
    forms: Sequence[str] = ()
    note: str = ""


def effect_of(record: Record) -> GuardrailEffect | None:
    """Return the effect of a guardrail; None of any other record, and of one that does not hold."""
    if record.kind != "censor" or not record.holds:
        return None
    details = record.details
    if not has_form(record.text, details):
        return GuardrailEffect(does="Stops no call: agents are told it, but it has no pattern that a call could match")
    forms = forms_of(record.text, details)
    which = "that match" if forms else f"that have all words of “{trigger_of(details)}”"
    if denies(record, own=True):
        is_persons = record.visibility == "user"
        whose = "all agents that work for its person" if is_persons else f"the agent {record.author}"
        note = "" if is_persons else "Other agents are only warned."
        return GuardrailEffect(does=f"Denies calls of {whose} {which}", forms=forms, note=note)
    is_doubted = details.get("action") == "block"
    note = "It denies none at present: it was reported as wrong more often than as right." if is_doubted else ""
    return GuardrailEffect(does=f"Warns before calls {which}", forms=forms, note=note)
