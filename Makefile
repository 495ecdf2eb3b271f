# Strata. `make demo` is the shortest way to a verdict; `make setup` puts the command at .venv/bin/strata.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := setup
.PHONY: setup setup-test demo lab test mutants test-host test-machines test-lab exact fuzz test-full benchmarks calibrate deciding lint lint-python lint-rust \
	docs site lock clean

PYTHON ?= python3
SEED ?= 1
VENV := .venv/bin
PIP_INSTALL := $(VENV)/pip install --quiet --disable-pip-version-check --require-hashes
export PYTHON

# A stamp lives inside .venv, so that removing .venv starts from nothing.
setup: .venv/.package
	@echo "set-up: done; the command is $(VENV)/strata"

setup-test: .venv/.package .venv/.dev
	@scripts/os-packages.sh test

.PHONY: os-packages
os-packages:
	@scripts/os-packages.sh run
	@scripts/make-venv.sh

.venv/.run: requirements/run.txt requirements/build.txt | os-packages
	@echo "set-up: installing the Python packages"
	@$(PIP_INSTALL) -r requirements/run.txt -r requirements/build.txt
	@touch $@

.venv/.dev: requirements/dev.txt .venv/.run | os-packages
	@echo "set-up: installing what the tests need"
	@$(PIP_INSTALL) -r requirements/dev.txt
	@touch $@

.venv/.package: .venv/.run pyproject.toml Cargo.toml Cargo.lock $(shell find crates packaging -type f) | os-packages
	@scripts/install-package.sh
	@touch $@

demo: setup
	$(VENV)/strata run campaigns/demo.yaml --out runs/demo --yes

# The lab that the lab's tests boot. It is kept in the user's cache: built once, and again when what goes in changes.
lab: setup
	@scripts/os-packages.sh lab
	$(VENV)/strata lab build --with zfs

test: setup-test lint
	cargo test --locked --quiet --workspace
	$(MAKE) lab
	$(VENV)/pytest tests/unit -n 2
	$(MAKE) --jobs=2 --output-sync=target test-host test-machines
	$(VENV)/python benchmarks/bare_fio.py

# Two parts of `make test` that share no file and no device: an emulated machine keeps one of two processors busy, and
# most tests of the host wait for a device. Each prints its output when it ends.
test-host: setup-test
	$(VENV)/pytest tests/host tests/fault

test-machines: setup-test lab
	$(VENV)/pytest tests/lab/test_layers.py tests/lab/test_exact.py tests/lab/test_claimed_devices.py

# All that boots lab machines, known answers and broken machines too; every layer on the virtual clock: `make exact`.
test-lab: setup-test lab
	$(VENV)/pytest tests/lab

# Every layer on the virtual clock, run three times and compared digit by digit; `make test` has a part of it.
exact: setup-test lab
	$(VENV)/pytest tests/lab/test_exact.py -m ""

# A million texts that coverage leads to, read by the language of workloads; needs a nightly Rust and cargo-fuzz. Without
# a sanitizer: the crate has no unsafe code for one to watch.
fuzz:
	mkdir -p target/fuzz-corpus
	cd crates/wml && cargo +nightly fuzz run --sanitizer none --target-dir ../../target/fuzz text ../../target/fuzz-corpus \
		../engine/src/wml/builtin tests/fixtures -- -runs=1000000 -timeout=20 -max_len=8192

# The slow tests as well (2,000 A/A campaigns, the ready campaigns), and every benchmark.
test-full: setup-test lab lint
	cargo test --locked --quiet --workspace
	STRATA_FUZZ_INPUTS=1000000 cargo test --release --locked --quiet -p strata-wml --test fuzz
	$(VENV)/pytest tests -m "" --cov
	$(VENV)/python -m tests.fuzz.runs --mutants 10000 --seed $${STRATA_FUZZ_SEED:-1}
	$(MAKE) mutants
	$(MAKE) benchmarks

# Breaks the code in 260 places, one at a time, and says which no test notices (about an hour). SEED makes another sample.
CARGO_MUTANTS := 27.1.0
mutants: setup-test
	cargo mutants --version 2>/dev/null | grep -qF " $(CARGO_MUTANTS)" || cargo install --quiet --locked --version $(CARGO_MUTANTS) cargo-mutants
	nice $(VENV)/python -m tests.mutants --seed $(SEED) --json tests/mutants/last.json

# What a claim of speed rests on. `make deciding` and `make calibrate` make the figures of their page.
benchmarks: setup lab
	set -e; for each in $(filter-out deciding calibration statements,$(patsubst benchmarks/%.py,%,$(wildcard benchmarks/*.py))); do \
		echo "benchmark: $$each"; $(VENV)/python -m benchmarks.$$each; \
	done

# Whether the stated confidence is kept: the long part, some 200 campaigns of each kind (about an hour of one core).
calibrate: setup-test
	STRATA_CALIBRATE=$${STRATA_CALIBRATE:-200} nice $(VENV)/pytest tests/unit/design/test_calibration.py tests/unit/design/test_kinds.py tests/unit/analysis/test_calibration.py -m "" --timeout 0 -s
	nice $(VENV)/python -m benchmarks.calibration target/calibration.csv --campaigns $${STRATA_CALIBRATE:-200}

# The figures and pictures of docs/concepts/deciding.md. SEED and CAMPAIGNS change what they are made of.
CAMPAIGNS ?= 60
deciding: setup
	nice $(VENV)/python -m benchmarks.deciding --seed $(SEED) --campaigns $(CAMPAIGNS) docs/concepts/deciding

lint: lint-rust lint-python

lint-python: setup-test
	$(VENV)/ruff check --quiet
	$(VENV)/ruff format --check --quiet
	$(VENV)/mypy python
	$(VENV)/mypy --explicit-package-bases tests benchmarks
	$(VENV)/lint-imports

lint-rust: setup-test
	@scripts/lint-rust.sh

# The reference pages, from the same declarations as `strata show`; the manual page and completion, from the parser.
docs: setup
	$(VENV)/python -m strata.cli.reference docs/reference
	$(VENV)/python -m strata.cli.manual packaging/stratabench.data/data

# docs/ as a site in target/site; its search needs a server. tests/unit/docs/test_site.py checks it.
site: setup-test
	NO_MKDOCS_2_WARNING=1 $(VENV)/mkdocs build --quiet
	@echo "site: target/site/index.html"

# Newest versions that fit, with their hashes, for every Python that is supported.
UV_COMPILE := $(VENV)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --fork-strategy fewest \
	--generate-hashes --no-strip-extras --no-emit-index-url --custom-compile-command "make lock"
lock: setup-test
	$(UV_COMPILE) pyproject.toml -o requirements/run.txt
	$(UV_COMPILE) requirements/build.in -c requirements/run.txt -o requirements/build.txt
	$(UV_COMPILE) requirements/dev.in -c requirements/run.txt -c requirements/build.txt -o requirements/dev.txt
	cargo update

clean:
	rm -rf .venv target .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
