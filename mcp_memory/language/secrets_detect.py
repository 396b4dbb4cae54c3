"""Secrets by detect-secrets' specific detectors; its entropy and keyword guesses raise too many false alarms."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any

_PLUGINS = {
    "artifactory": "ArtifactoryDetector",
    "aws": "AWSKeyDetector",
    "azure_storage_key": "AzureStorageKeyDetector",
    "basic_auth": "BasicAuthDetector",
    "cloudant": "CloudantDetector",
    "discord": "DiscordBotTokenDetector",
    "github_token": "GitHubTokenDetector",
    "gitlab_token": "GitLabTokenDetector",
    "jwt": "JwtTokenDetector",
    "mailchimp": "MailchimpDetector",
    "npm": "NpmDetector",
    "openai": "OpenAIDetector",
    "pypi_token": "PypiTokenDetector",
    "sendgrid": "SendGridDetector",
    "slack": "SlackDetector",
    "square_oauth": "SquareOAuthDetector",
    "stripe": "StripeDetector",
    "telegram_token": "TelegramBotTokenDetector",
    "twilio": "TwilioKeyDetector",
}
_OWN_PATTERNS = {
    "Private Key": re.compile(
        r"-----BEGIN (?:[A-Z0-9 ]+ )?PRIVATE KEY(?: BLOCK)?-----.*?"
        r"(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
        re.DOTALL,
    ),
    "API Key": re.compile(r"\bsk-(?:ant|proj|svcacct|or)-[\w-]{16,}"),
    "GitHub Token": re.compile(r"\bgithub_pat_\w{22,}"),
    "Google API Key": re.compile(r"\bAIza[\w-]{35}"),
    "Hugging Face Token": re.compile(r"\bhf_[A-Za-z0-9]{30,}"),
    "Bearer Token": re.compile(r"(?<=[Bb]earer )[\w.~+/=-]{20,}"),
}
"""What the detectors lack: whole key blocks rather than their first line, and newer issuers' keys."""
_SHORT = 6


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
        for detector in self._load():
            for secret in _distinct(detector.analyze_string(text)):
                marker = f"[REDACTED {detector.secret_type}]"
                # A short password is cut out of its address alone: elsewhere it may be a word.
                old, new = (secret, marker) if len(secret) >= _SHORT else (f":{secret}@", f":{marker}@")
                if not secret.startswith("[REDACTED"):
                    count += text.count(old)
                    text = text.replace(old, new)
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
