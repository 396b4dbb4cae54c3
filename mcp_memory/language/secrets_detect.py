"""Secrets by detect-secrets' specific detectors; its entropy and keyword guesses raise too many false alarms."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any

_PLUGINS = {
    "aws": "AWSKeyDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
    "cloudant": "CloudantDetector",
    "discord": "DiscordBotTokenDetector",
    "mailchimp": "MailchimpDetector",
    "openai": "OpenAIDetector",
    "pypi_token": "PypiTokenDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "stripe": "StripeDetector",
    "twilio": "TwilioKeyDetector",
}
_OWN_PATTERNS = {
    "Private Key": re.compile(
        r"-----BEGIN (?:[A-Z0-9 ]+ )?PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
        re.DOTALL,
    ),
    "API Key": re.compile(r"\b(?:sk-(?:ant|proj|svcacct|or)-[\w-]{16,}|(?:xai-|gsk_)\w{40,}|do[opr]_v1_[0-9a-f]{64})"),
    "Service Token": re.compile(
        r"\b(?:sk-[A-Za-z0-9]{32,}|xapp-\d-[\w-]{20,}|whsec_\w{24,}|[srp]k_(?:test|live)_\w{16,}|hvs\.[\w-]{20,}"
        r"|dapi[0-9a-f]{32}|ATATT3x[\w=-]{20,}|lin_api_\w{32,}|ntn_\w{30,}|shp(?:at|ss|ca|pa)_[0-9a-f]{32}"
        r"|sntrys_[\w=+/-]{40,}|HRKU-[\w-]{30,}|figd_[\w-]{30,}|r8_\w{30,}|pplx-\w{30,}|sbp_[0-9a-f]{40}"
        r"|dp\.pt\.\w{30,}|AGE-SECRET-KEY-1[0-9A-Z]{50,}|fm2_[\w+/=]{40,})"
    ),
    "GitHub Token": re.compile(r"\b(?:gh[opsur]_\w{36,}|github_pat_\w{22,})"),
    "GitLab Token": re.compile(r"\bgl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[\w-]{20,}"),
    "NPM Token": re.compile(r"\bnpm_[A-Za-z0-9]{36,}|(?<=:_authToken=)[\w-]{20,}"),
    "JSON Web Token": re.compile(r"\beyJ[\w-]{8,}={0,2}\.eyJ[\w-]{2,}={0,2}(?:\.[\w-]*)?"),
    "Artifactory Key": re.compile(r"\b(?:AKCp|AP[0-9A-F])[A-Za-z0-9]{60,}"),
    "Telegram Bot Token": re.compile(r"\b\d{8,10}:AA[\w-]{33}(?![\w-])"),
    "Google OAuth Token": re.compile(r"\bya29\.[\w-]{30,}"),
    "AWS Secret Key": re.compile(
        r"(?i:aws_?secret_?(?:access_?)?key)[\"']?\s{0,9}[=:]\s{0,9}[\"']?[A-Za-z0-9/+]{40}\b"
    ),
    "AWS Secret": re.compile(
        r"(?i:\baws\b.{0,40}?[\s:=\"'])(?=[a-zA-Z/+]*\d)(?=[a-z0-9/+]*[A-Z])[A-Za-z0-9/+]{40}(?![\w/+])"
    ),
    "Assigned Secret": re.compile(
        r"(?i:(?<![a-z])(?:pass(?:word|wd|phrase)|pwd|secret|(?:api|access|auth|secret)[_ -]?(?:key|token))"
        r"[\"']?\s{0,3}(?:[:=]|\bis\b)\s{0,3})[\"']?(?![\"'<\[{$])(?=[^\s\"',;]*\d)(?=[^\s\"',;]*[A-Za-z])"
        r"[\w!@#%^&*+/=.~-]{10,}"
    ),
    "Basic Auth Credentials": re.compile(r"(?<=[Bb]asic )[A-Za-z0-9+/]{16,}={1,2}"),
    "Google API Key": re.compile(r"\bAIza[\w-]{35}"),
    "Hugging Face Token": re.compile(r"\bhf_[A-Za-z0-9]{30,}"),
    "Bearer Token": re.compile(r"(?<=[Bb]earer )(?=[a-zA-Z.~+/=_-]*\d)[\w.~+/=-]{20,}"),
}
"""What the detectors lack: whole key blocks rather than their first line, and newer issuers' keys; and what some of
them find without saying where it ends (a group of the pattern instead of the whole token).
"""
_ADDRESS = re.compile(r"(?<=://)([^\s:/?#@\[\]]{0,100}):(?!\[REDACTED)([^\s/?#@\[\]{}<>]{1,200})(?=@)")
"""User and password in an address; a placeholder in brackets is no password."""


class SecretRedactor:
    """Implements `Redactor`. The detectors are loaded at first use."""

    def __init__(self) -> None:
        self._detectors: list[Any] | None = None
        self._lock = threading.Lock()

    def redact(self, text: str) -> tuple[str, int]:
        count = 0
        for name, pattern in _OWN_PATTERNS.items():
            text, found = pattern.subn(f"[REDACTED {name}]", text)
            count += found
        # A password is cut out of its address alone: elsewhere it may be a word.
        text, found = _ADDRESS.subn(r"\1:[REDACTED Password]", text)
        count += found
        for detector in self._load():
            for secret in _distinct(detector.analyze_string(text)):
                count += text.count(secret)
                text = text.replace(secret, f"[REDACTED {detector.secret_type}]")
        return text, count

    def _load(self) -> list[Any]:
        with self._lock:
            if self._detectors is None:
                from importlib import import_module

                modules = {name: import_module(f"detect_secrets.plugins.{name}") for name in _PLUGINS}
                self._detectors = [getattr(modules[name], detector)() for name, detector in _PLUGINS.items()]
            return self._detectors


def _distinct(secrets: Iterable[str]) -> list[str]:
    """Longest first, so that a secret inside another does not break it apart."""
    return sorted({secret for secret in secrets if secret}, key=len, reverse=True)


class NoRedactor:
    """Implements `Redactor` for those who switched redaction off."""

    def redact(self, text: str) -> tuple[str, int]:
        return text, 0
