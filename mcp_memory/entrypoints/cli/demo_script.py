"""The demo's story, as data: what was said on a small project, what is asked of the memory, and what is worked on.

Knows neither how it is played nor how it is shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mcp_memory.domain.model.records import Details, Json, Kind
from mcp_memory.domain.model.tasks import FinalStatus

USER, ASSISTANT = "Mara", "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One thing remembered: a message of the conversation, or what was learnt from it. `at` is a UTC time of day."""

    days_ago: int
    at: str
    session: str
    text: str
    speaker: str = ""
    kind: Kind = "message"
    importance: float = 1.0
    tags: tuple[str, ...] = ()
    details: Details = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A search, and what it is meant to show."""

    shows: str
    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Subtask:
    """A step of the plan and how it ends; without a result the work stands there."""

    goal: str
    status: FinalStatus = "complete"
    result: str = ""
    artifacts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The whole story."""

    conversation: Sequence[Said]
    correction: Said
    corrects: str
    """The text of the record that the correction replaces."""
    questions: Sequence[Question]
    goal: str
    success_criteria: str
    plan: Sequence[Subtask]
    request: str
    """What the agent is about to do when it asks for a context."""
    max_tokens: int


def _said(days_ago: int, session: str, *turns: tuple[str, str, str]) -> list[Said]:
    return [Said(days_ago=days_ago, at=at, session=session, speaker=who, text=text) for at, who, text in turns]


# Amazon's own example of a key, in two parts so that no scanner takes this file for a leak.
_KEY = "AKIA" + "IOSFODNN7QZKWMTR"
_EVERY_30_SECONDS = "The rooftop board sends a reading every 30 seconds."

_PLANNING: list[Said] = [
    *_said(
        9,
        "planning",
        ("18:02", USER, "I want a weather station on the roof: temperature, humidity and wind, seen from the kitchen."),
        ("18:03", ASSISTANT, "An ESP32 board with a BME280 and an anemometer will do. Is any computer always on?"),
        ("18:05", USER, "The old Raspberry Pi in the hallway. Keep answers short, please, and everything in metric."),
    ),
    Said(
        days_ago=9,
        at="18:05",
        session="planning",
        kind="identity",
        importance=8,
        text="Mara wants short answers and metric units, and is asked before anything is bought.",
    ),
    *_said(
        9,
        "planning",
        (
            "18:09",
            ASSISTANT,
            "Then MQTT from the board to Mosquitto on the Pi. For history: InfluxDB, or plain SQLite?",
        ),
        ("18:12", USER, "SQLite. That Pi has 1 GB of memory, and I want to back up one file."),
    ),
    Said(
        days_ago=9,
        at="18:12",
        session="planning",
        kind="decision",
        importance=8,
        tags=("storage",),
        text="The station's history is kept in SQLite on the Raspberry Pi, not in InfluxDB.",
        details={"reasons": ["1 GB of memory", "one file to back up"], "alternatives": ["InfluxDB"]},
    ),
]

_MOUNTING: list[Said] = [
    *_said(
        7,
        "mounting",
        ("10:20", USER, "It is up! One reading every 30 seconds arrives on the Pi."),
        ("10:22", ASSISTANT, "Good. At that rate the radio is on a lot; watch the battery."),
    ),
    Said(
        days_ago=7, at="10:22", session="mounting", kind="fact", importance=5, tags=("power",), text=_EVERY_30_SECONDS
    ),
    *_said(
        7,
        "mounting",
        ("10:31", USER, f"The nightly copy goes to the archive bucket, access key {_KEY}. Add it to the uploader."),
        ("10:32", ASSISTANT, "Added to the uploader's own settings, outside the repository."),
    ),
]

_ACCIDENT: list[Said] = [
    *_said(
        5,
        "accident",
        ("16:45", USER, "I flashed the new build over Wi-Fi and the board went silent. I had to climb up in the rain."),
        ("16:47", ASSISTANT, "The link broke off at 70 %, and there is no second partition to start from."),
        ("16:58", USER, "On the desk by USB it came back at once. Never again from down here."),
    ),
    Said(
        days_ago=5,
        at="16:58",
        session="accident",
        kind="censor",
        importance=9,
        text="Never flash the roof board over Wi-Fi: the link drops half-way and leaves it without firmware.",
        details={
            "trigger": "flash, firmware, update over the air",
            "reason": "the link drops half-way",
            "action": "block",
        },
    ),
    Said(
        days_ago=5,
        at="17:04",
        session="accident",
        kind="procedure",
        importance=7,
        text="Firmware update: take the board down, connect it by USB, `make flash`, wait for three readings in "
        "`make monitor`, mount it again.",
        details={"name": "Update the firmware", "description": "By USB, on the desk"},
    ),
]

_WIND: list[Said] = [
    *_said(
        2,
        "wind",
        ("08:15", USER, "The chart says 210 km/h last night. It was calm."),
        ("08:17", ASSISTANT, "The anemometer's reed switch bounces and each bounce counts. Ignore pulses within 5 ms."),
        ("08:40", USER, "Still 90 km/h with 5 ms. With 15 ms it agrees with the airfield."),
    ),
    Said(
        days_ago=2,
        at="08:40",
        session="wind",
        kind="fact",
        importance=5,
        tags=("wind",),
        text="The anemometer's pulses are debounced with 15 ms; 5 ms was too short and showed storms in calm nights.",
    ),
]

_WINTER: list[Said] = [
    *_said(
        1,
        "winter",
        ("19:30", USER, "Battery is at 41 %. I changed it to one reading every 5 minutes."),
        ("19:31", ASSISTANT, "Noted. What has to work by December?"),
        ("19:33", USER, "A month without climbing up. And the frost alarm must still come within 10 minutes."),
        ("19:34", ASSISTANT, "Then first measure what it draws asleep, then see about solar, then longer sleep."),
        ("19:36", USER, "Agreed. Write down what comes of each."),
    ),
    Said(
        days_ago=1,
        at="19:36",
        session="winter",
        kind="decision",
        importance=7,
        tags=("power",),
        text="A frost alarm must arrive within 10 minutes, whatever is done to save power.",
        details={"reasons": ["the seedlings on the terrace"]},
    ),
]

SCRIPT = Script(
    conversation=[*_PLANNING, *_MOUNTING, *_ACCIDENT, *_WIND, *_WINTER],
    correction=Said(
        days_ago=1,
        at="19:30",
        session="winter",
        kind="fact",
        importance=6,
        tags=("power",),
        text="The rooftop board sends a reading every 5 minutes, to spare the battery.",
    ),
    corrects=_EVERY_30_SECONDS,
    questions=[
        Question(shows="by word", query="anemometer reed switch"),
        Question(shows="by meaning, no word in common", query="installing software remotely could ruin the device"),
        Question(shows="what was corrected", query="How often does the rooftop board send a reading?"),
    ],
    goal="Get the roof station through the winter on one battery charge a month",
    success_criteria="30 days without climbing up, frost alarm within 10 minutes",
    plan=[
        Subtask(
            goal="Measure what the board draws asleep",
            result="0.9 mA instead of 0.15: the sensor stays powered. Fed from a pin that goes low, it is 0.2 mA.",
            artifacts=("notes/power.md",),
        ),
        Subtask(
            goal="Charge the battery from a small solar panel",
            status="failed",
            result="The only free spot lies in the chimney's shade from October on: 40 mAh a day where 70 are needed.",
        ),
        Subtask(goal="Let the board sleep longer at night"),
    ],
    request="Change how often the roof board wakes up at night and get the new firmware onto it",
    max_tokens=500,
)

NEXT: Mapping[str, str] = {
    "Give it to Claude Code": "install claude-code",
    "Any other client": "install --list",
    "Look into your own": "status",
}
"""Commands of the program that plays the demo."""
