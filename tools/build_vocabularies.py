"""Build the token vocabularies that mcp_memory counts with: the ranks of OpenAI's public encodings, in a compact form.

    pip download --no-deps llama-index-core==0.14.25
    python tools/build_vocabularies.py llama_index_core-0.14.25-py3-none-any.whl mcp_memory/encoders/data/vocabularies

WHEEL is any wheel that carries tiktoken's cache files (litellm's does too). They are known by the checksums that
tiktoken itself pins, so it does not matter who packed them. No network. A vocabulary is written as the tokens in the
order of their ranks, each as a byte with its length and then its bytes; SHA256SUMS is written beside them.
"""

import argparse
import base64
import hashlib
import zipfile
from pathlib import Path

# From tiktoken_ext/openai_public.py, tiktoken 0.14.0.
PINNED_SHA256 = {
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
# tiktoken names a cache file by the SHA-1 of the address it was downloaded from.
ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"


def read_ranks(wheel: Path, encoding: str) -> bytes:
    """Find an encoding's file in the wheel and check that it is the one tiktoken would accept."""
    cache_name = hashlib.sha1(ADDRESS.format(encoding).encode(), usedforsecurity=False).hexdigest()
    with zipfile.ZipFile(wheel) as archive:
        found = [name for name in archive.namelist() if name.rsplit("/", 1)[-1] == cache_name]
        if not found:
            raise SystemExit(f"{wheel.name}: no {cache_name} ({encoding}) in it")
        content = archive.read(found[0])
    if hashlib.sha256(content).hexdigest() != PINNED_SHA256[encoding]:
        raise SystemExit(f"{found[0]}: not the {encoding} that tiktoken pins")
    return content


def compact(ranks: bytes) -> bytes:
    """Turn lines of `base64-token rank` into length and bytes, in rank order; ranks must count up from 0."""
    lines = [line.split() for line in ranks.splitlines() if line]
    if [int(rank) for _, rank in lines] != list(range(len(lines))):
        raise SystemExit("ranks are not in order; the compact form cannot hold them")
    tokens = [base64.b64decode(token) for token, _ in lines]
    return b"".join(bytes([len(token)]) + token for token in tokens)


def main() -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("out_dir", type=Path)
    arguments = parser.parse_args()
    arguments.out_dir.mkdir(parents=True, exist_ok=True)
    sums: list[str] = []
    for encoding in PINNED_SHA256:
        data = compact(read_ranks(arguments.wheel, encoding))
        (arguments.out_dir / f"{encoding}.bin").write_bytes(data)
        sums.append(f"{hashlib.sha256(data).hexdigest()}  {encoding}.bin\n")
    (arguments.out_dir / "SHA256SUMS").write_text("".join(sums), "utf-8")
    print("".join(sums), end="")


if __name__ == "__main__":
    main()
