"""A client of a server over HTTP as a process of its own, which can be killed: python http_client.py URL.

Every line of standard input is a request or a notification, and its answer is a line of standard output. Needs the
standard library alone.
"""

import json
import sys
import urllib.request
from http.client import HTTPResponse
from urllib.error import HTTPError

PATIENCE_SECONDS = 120.0


def main() -> None:
    url, session = sys.argv[1], ""
    for line in sys.stdin:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if session:
            headers["Mcp-Session-Id"] = session
        asked = urllib.request.Request(url, line.encode(), headers)
        try:
            with urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS) as response:
                session = response.headers.get("Mcp-Session-Id", session)
                said = message(response)
        except HTTPError as error:
            said = json.dumps({"id": json.loads(line).get("id"), "error": {"message": f"HTTP {error.code}"}})
        if "id" in json.loads(line):
            print(said, flush=True)


def message(response: HTTPResponse) -> str:
    """The answer as a line, out of an event where it comes as one."""
    text = response.read().decode()
    if response.headers.get("Content-Type", "").startswith("text/event-stream"):
        text = next(line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:"))
    return json.dumps(json.loads(text)) if text.strip() else ""


if __name__ == "__main__":
    main()
