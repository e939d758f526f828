# The two commands of the README are `make demo` and `make test`; each sets up .venv if it is missing.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo check test setup pins lint types quick unit wheel properties fuzz faults bench-keras clean

setup:
	@$(PYTHON) scripts/setup.py

demo: setup
	@$(BIN)/spare demo --out runs/demo

# For every save: lint, types, and the tests that take seconds; under two minutes on two cores.
check: setup lint types quick

test: setup pins lint types unit

# Whether .venv holds exactly the versions of constraints.txt.
pins:
	@$(BIN)/python scripts/pins.py

lint:
	$(BIN)/ruff format --check src tests examples benchmarks scripts
	$(BIN)/ruff check src tests examples benchmarks scripts

types:
	$(BIN)/pyright

quick:
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# Each process takes one half, in order, so that tests that share a model or programs stay together, and then helps out.
unit:
	$(BIN)/python -m pytest -n 2 --dist worksteal --durations 20

# What a user gets: the wheel in an empty environment without extras; import, fit on a table, save, load, a page.
wheel: setup
	@$(BIN)/python scripts/wheel.py

# Every invariant of docs/reliability.md with 10,000 examples; about an hour on two cores.
properties: setup
	$(BIN)/python -m pytest -n 2 --timeout 0 -m "hypothesis or invariant" --hypothesis-profile=thorough

# 100,000 broken model files and 20,000 broken Parquet files.
fuzz: setup
	$(BIN)/python -m tests.fuzz.run

# 200 kills during save, 50 during learning, 200 interrupts (about half an hour), 20 models asked about 300 shapes, and
# every other fault.
faults: setup
	SPARE_TEST_KILLS=50 SPARE_TEST_INTERRUPTS=200 SPARE_TEST_SERVER=1 $(BIN)/python -m pytest tests/faults -s --timeout 7200

# The same search in plain Keras, side by side; makes an environment of its own with TensorFlow in it.
bench-keras: setup
	@$(BIN)/python benchmarks/keras/run.py
	@$(BIN)/python benchmarks/keras/em.py

clean:
	rm -rf .venv .venv-keras runs .pytest_cache .ruff_cache .hypothesis
