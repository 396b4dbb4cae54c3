"""Secrets are cut out; what developers write every day is not."""

import json
import random
import string
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_memory.language.secrets_re2 import NoRedactor, SecretRedactor

REDACTOR = SecretRedactor()
CASES = [json.loads(line) for line in Path(__file__).with_name("secret_cases.jsonl").read_text("utf-8").splitlines()]
CHANCE = random.Random(20_261_120)
HEX = "0123456789abcdef"
ALNUM = string.ascii_letters + string.digits


@pytest.fixture(autouse=True)
def loaded_once() -> None:
    """Each redactor compiles its own rules: these tests are about that too."""


def drawn(length: int, alphabet: str = ALNUM) -> str:
    """Characters that no one guesses, the same in every run; never a real key."""
    return "".join(CHANCE.choice(alphabet) for _ in range(length))


KEY_BODY = "\n".join(drawn(64) for _ in range(4))
SECRETS = {
    "AWS access key": "AKIA" + drawn(16, string.ascii_uppercase + string.digits),
    "AWS temporary key": "ASIA" + drawn(16, string.ascii_uppercase + string.digits),
    "GitHub personal": "ghp_" + drawn(36),
    "GitHub OAuth": "gho_" + drawn(36),
    "GitHub server": "ghs_" + drawn(36),
    "GitHub refresh": "ghr_" + drawn(76),
    "GitHub fine-grained": "github_pat_" + drawn(22) + "_" + drawn(59),
    "GitLab personal": "glpat-" + drawn(20),
    "GitLab runner": "glrt-" + drawn(20),
    "OpenAI": "sk-" + drawn(20) + "T3BlbkFJ" + drawn(20),
    "OpenAI project": "sk-proj-" + drawn(48),
    "Anthropic": "sk-ant-api03-" + drawn(93),
    "xAI": "xai-" + drawn(80),
    "Groq": "gsk_" + drawn(52),
    "Slack bot": "xoxb-" + drawn(12, string.digits) + "-" + drawn(13, string.digits) + "-" + drawn(24),
    "Slack webhook": "https://hooks.slack.com/services/T" + drawn(8) + "/B" + drawn(8) + "/" + drawn(24),
    "Stripe secret": "sk_live_" + drawn(24),
    "Stripe restricted": "rk_live_" + drawn(24),
    "SendGrid": "SG." + drawn(22) + "." + drawn(43),
    "Twilio": "SK" + drawn(32, HEX),
    "Mailchimp": drawn(32, HEX) + "-us12",
    "npm": "npm_" + drawn(36),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + drawn(80),
    "Telegram": drawn(10, "123456789") + ":AA" + drawn(33),
    "Discord": "M" + drawn(24) + "." + drawn(6) + "." + drawn(27),
    "Google API": "AIza" + drawn(35),
    "Google OAuth": "ya29." + drawn(120),
    "Hugging Face": "hf_" + drawn(34),
    "DigitalOcean": "dop_v1_" + drawn(64, HEX),
    "Artifactory": "AKCp" + drawn(69),
    "JSON web token": f"eyJ{drawn(30)}.eyJ{drawn(60)}.{drawn(43)}",
    "Square": "sq0csp-" + drawn(43),
    "mcp-memory": "mcpm_" + drawn(42) + "-",
    "RSA key": f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}\n-----END RSA PRIVATE KEY-----",
    "PKCS8 key": f"-----BEGIN PRIVATE KEY-----\n{KEY_BODY}\n-----END PRIVATE KEY-----",
    "OpenSSH key": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY_BODY}\n-----END OPENSSH PRIVATE KEY-----",
    "PGP key": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{KEY_BODY}\n-----END PGP PRIVATE KEY BLOCK-----",
}
ASSIGNED = {
    "AWS secret key": ("aws_secret_access_key = ", drawn(40), ""),
    "AWS secret in JSON": ('"AWS_SECRET_KEY": "', drawn(40), '"'),
    "bearer header": ("Authorization: Bearer ", "v1." + drawn(40), ""),
    "basic header": ("authorization: Basic ", drawn(30) + "==", ""),
    "npmrc": ("//registry.npmjs.org/:_authToken=", drawn(36, HEX), ""),
    "Azure storage": ("AccountName=x;AccountKey=", drawn(86) + "==", ";EndpointSuffix=core.windows.net"),
    "Postgres password": ("postgres://app:", "s3cr3t", "@db.local:5432/shop"),
    "Mongo password": ("mongodb+srv://app:", "Pa55w0rd!x$", "@cluster0.example.net/db"),
    "Redis password alone": ("redis://:", "hunter2", "@cache:6379/0"),
    "short password": ("ftp://u:", "pw", "@host"),
    "AMQP password": ("amqps://svc:", "Zx9%40kq", "@mq.example.com/v"),
}
ORDINARY = [
    "Fixed in 9fceb02d0ae598e95dc970b74767f19372d61af8 and 9fceb02.",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "1700000000:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "md5 d41d8cd98f00b204e9800998ecf8427e",
    '"integrity": "sha512-' + drawn(86) + '=="',
    "id 550e8400-e29b-41d4-a716-446655440000",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "/usr/local/lib/python3.11/site-packages/package/internal/_very_long_module_name_with_underscores.py",
    "https://example.com:8443/a/b?c=d&e=%20f#g and http://localhost:8080/@me",
    "git@github.com:owner/repo.git, ssh://git@host:22/x.git, scp me@host:/path",
    "postgres://localhost/shop and redis://cache:6379/0",
    "http://${USER}:${PASS}@host/ or https://proxy:<password>@host or https://user:{password}@host",
    "sk-learn is scikit-learn; task-force; npm_config_registry; hf_hub_download(repo_id)",
    "the bearer of bad news; a Bearer token is required; use --bearer internationalization-of-things",
    "Keys begin with AKIA, ghp_, sk_live_, xoxb-, glpat- or sk-ant-; tokens with eyJ.",
    "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "ssh-rsa AAAAB3NzaC1yc2E" + drawn(300) + " me@host",
    'token = os.environ["GITHUB_TOKEN"]; password = get_password()',
    "arn:aws:iam::123456789012:role/Admin; docker pull ghcr.io/owner/image@sha256:" + "ab" * 32,
    "APEXinstaller, APDataSource, APCachedThings and the AKClassifier class",
    "12:30:45, ratio 3:4, 2026-11-20T18:17:28Z, 1.2.3.4, UID 1000:1000, x86_64-unknown-linux-gnu",
    "npm install @scope/pkg@1.2.3 && pip install pypi-simple",
    "PRIVATE KEY handling, basic auth, Basic arithmetic",
    "数据库的密码在保险箱里",
    "",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_a_key_is_cut_out_whole_wherever_it_stands(name: str) -> None:
    """R4: nothing of it is left, and all that stood around it is."""
    for around in ("{}", "use {} for it", "TOKEN={}", '{{"key": "{}"}}', "see `{}`.", "\n{}\n"):
        text, count = REDACTOR.redact(around.format(SECRETS[name]))
        before, after = around.format("\0").split("\0")
        assert (around, count) == (around, 1)
        assert text.startswith(f"{before}[REDACTED ")
        assert text.endswith(f"]{after}")
        assert "[" not in text.removeprefix(f"{before}[REDACTED ")


@pytest.mark.parametrize("name", ASSIGNED)
def test_a_secret_known_by_its_place_is_cut_out(name: str) -> None:
    """R4: headers, assignments and addresses."""
    before, secret, after = ASSIGNED[name]
    text, count = REDACTOR.redact(f"set {before}{secret}{after} there")
    assert count == 1
    assert secret not in text
    assert "[REDACTED " in text
    assert text.startswith("set ")
    assert text.endswith(f"{after} there")


def test_an_address_keeps_all_but_its_password() -> None:
    """R4: a short password is cut out of its address alone; elsewhere it may be a word."""
    assert REDACTOR.redact("db: pg://app:app@db/app, app") == ("db: pg://app:[REDACTED Password]@db/app, app", 1)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_not_changed(text: str) -> None:
    """R4: hashes, ids, images, paths, addresses without a password, prefixes alone."""
    assert REDACTOR.redact(text) == (text, 0)


def test_a_cut_off_private_key_is_cut_out_to_the_end() -> None:
    """R4: tools truncate their output in the middle of things."""
    text, count = REDACTOR.redact(f"cat id_rsa\n{SECRETS['RSA key'][:120]}")
    assert (text, count) == ("cat id_rsa\n[REDACTED Private Key]", 1)


def test_every_secret_of_a_text_is_counted() -> None:
    """R4: the same one twice is two."""
    text = " ".join([*SECRETS.values(), SECRETS["npm"]])
    redacted, count = REDACTOR.redact(text)
    assert count == len(SECRETS) + 1
    assert not [name for name, secret in SECRETS.items() if secret in redacted]


@given(st.lists(st.sampled_from([*SECRETS.values(), *ORDINARY]), max_size=5).map("\n".join))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    """R4: a redacted text that is stored again is the same text (R2)."""
    once, _ = REDACTOR.redact(text)
    assert REDACTOR.redact(once) == (once, 0)


@pytest.mark.parametrize("name", ["mcp-memory", "GitHub personal"])
@pytest.mark.parametrize("before", ["\\n", "%3D", "密钥", "(", "'"])
def test_a_key_begins_after_escapes_and_signs(name: str, before: str) -> None:
    """X4.1: in JSON strings, addresses and scripts without spaces."""
    text, count = REDACTOR.redact(f"a{before}{SECRETS[name]} b")
    assert (count, text[: len(before) + 11], text[-2:]) == (1, f"a{before}[REDACTED ", " b")


@pytest.mark.parametrize(
    "text",
    [
        "PWD=/var/www/html5/site1",
        "api_key=self.settings.api_key_v2",
        "password is at-least-12-chars",
        "password = get_password_v2(user1)",
        'secret: "${{ secrets.DEPLOY_KEY_2 }}"',
        "max_tokens=40000000, token_limit: 128000000",
        "edge_key = 'attr1_2'; primary_key: Zk3vQx81LmPw92Ra",
        "tokenizer: cl100k_base_v2_2024",
    ],
)
def test_names_paths_and_code_are_no_secrets(text: str) -> None:
    """X4.1: what stands where a secret could, but reads as something else."""
    assert REDACTOR.redact(text) == (text, 0)


@pytest.mark.parametrize("text", ["a \ud800 b", "\udfff" * 3])
def test_half_characters_come_back_as_they_were(text: str) -> None:
    """X4.1: no text ends a call, and what surrounds a key is kept."""
    assert REDACTOR.redact(text) == (text, 0)
    assert REDACTOR.redact(f"{text} {SECRETS['npm']}") == (f"{text} [REDACTED NPM Token]", 1)


def test_a_hostile_text_hides_no_secret() -> None:
    """X3.1: half-begun keys of every rule fill the automaton's memory, and the key behind them is found."""
    begun = [case["text"][: len(case["text"]) // 2] for case in CASES if case["class"] != "innocent"]
    chance = random.Random(7)
    text: str = "".join("".join(chance.choice(begun)) for _ in range(3_000))
    redacted, count = REDACTOR.redact(f"{text}\n{SECRETS['npm']}")
    assert count
    assert redacted.endswith("\n[REDACTED NPM Token]")


def test_threads_that_meet_at_the_first_text_find_the_same() -> None:
    """X4.1: rules are read and compiled at first use, by whoever comes first."""
    redactor = SecretRedactor()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(redactor.redact, [*SECRETS.values()] * 4))
    assert found == [REDACTOR.redact(secret) for secret in SECRETS.values()] * 4


@pytest.mark.parametrize(
    "unit", ["://a:", "a", "Bearer ", "eyJ.", "-----BEGIN PRIVATE KEY-----", "glpat-", "x:y@", "://"]
)
def test_a_megabyte_of_look_alikes_is_read_in_linear_time(unit: str) -> None:
    """R4: a pattern that went back and forth would not end here."""
    REDACTOR.redact(unit * (1_000_000 // len(unit)))


def test_redaction_can_be_switched_off() -> None:
    """R4: by those who ask for it."""
    assert NoRedactor().redact(SECRETS["npm"]) == (SECRETS["npm"], 0)
