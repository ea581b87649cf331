# `make demo` and `make test` set up all they need: a virtual environment in .venv and, for the tests, a browser.

# A Python built without optimisations, as pyenv builds it, takes a tenth more of the processor than the system's.
OPTIMISED := import ensurepip, sys, sysconfig; optimised = sys.base_prefix == "/usr" or "--enable-optimizations" in sysconfig.get_config_var("CONFIG_ARGS"); sys.exit(sys.version_info < (3, 11) or not optimised)
PYTHON ?= $(shell for each in python3 /usr/bin/python3; do $$each -c '$(OPTIMISED)' 2>/dev/null && echo $$each && exit; done; echo python3)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

# Installs the packages of a lock: uv takes a tenth of pip's time. It does not know pip's configuration, so pip installs
# where that names an index, or where uv cannot.
define install-locked
	@if [ -x $(BIN)/uv ] && [ -z "$$PIP_NO_INDEX$$PIP_INDEX_URL$$($(PIP) config get global.index-url 2>/dev/null)" ] \
	  && $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes --requirement $(1); \
	then :; else $(PIP) install $(LOCKED) $(1); fi
endef

LOCK = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-annotate
LOCKED := --no-compile --no-deps --require-hashes --requirement

# The extras of the images: each has a lock of the packages that requirements.lock lacks.
LOCKED_EXTRAS := postgres cuda tpu ray otel

COMPILERS := .compilers

TORCH = "$$(sed -n 's/^ *"\(torch==[^"]*\)",$$/\1/p' pyproject.toml)"

# Tests start many processes. Each would compile its thousand modules again where Python is told to write no bytecode.
export PYTHONDONTWRITEBYTECODE :=
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(VENV)/pycache

.PHONY: install install-dev browser tpu-compiler compiled accelerator accelerator-cpu accelerator-gpu accelerator-tpu accelerator-unknown demo test check lint types layers tests unit pictures mutants lock audit release clean

install: $(VENV)/.installed

install-dev: $(VENV)/.installed-dev

$(VENV)/bin/python:
	@echo "Making a virtual environment in $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; name one with PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.uv: requirements-uv.lock | $(VENV)/bin/python
	@$(PIP) install --only-binary :all: $(LOCKED) requirements-uv.lock || echo "There is no uv for this machine: pip installs"
	@touch $@

$(VENV)/.installed: pyproject.toml requirements.lock | $(VENV)/.uv
	@echo "Installing sdjax-bot and its packages (a minute or two the first time)"
	$(call install-locked,requirements.lock)
	@PYTHONWARNINGS=ignore $(PIP) install --no-compile --no-deps --no-build-isolation --editable .
	@touch $@

# torch is a reference for the tests. Its builds differ from machine to machine, so it has no hash in the lock. uv takes
# half of pip's time, and knows folders of packages by another variable.
$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	@echo "Installing the packages of the tests"
	$(call install-locked,requirements-dev.lock)
	@if [ -x $(BIN)/uv ] && [ -d "$$PIP_FIND_LINKS" ] && [ -z "$$PIP_NO_INDEX$$PIP_INDEX_URL" ] \
	  && UV_FIND_LINKS="$$PIP_FIND_LINKS" $(BIN)/uv pip install --quiet --python $(BIN)/python $(TORCH); \
	then :; else $(PIP) install --no-compile $(TORCH); fi
	@touch $@

browser:
	@command -v chromium-headless-shell >/dev/null || command -v chromium >/dev/null || { \
	  echo "Installing Chromium for the browser tests"; \
	  SUDO=; [ "$$(id -u)" = 0 ] || SUDO=sudo; \
	  $$SUDO apt-get -qq update && DEBIAN_FRONTEND=noninteractive $$SUDO apt-get -qq install -y --no-install-recommends fonts-noto-cjk \
	    "$$(apt-cache show chromium-headless-shell >/dev/null 2>&1 && echo chromium-headless-shell || echo chromium)" >/dev/null; }

# The compilers of devices that need not be there. Beside the packages of .venv they would change how JAX starts.
# libtpu has no hash: its version follows the installed JAX.
tpu-compiler: $(COMPILERS)/tpu/.installed

$(COMPILERS)/tpu/.installed: $(VENV)/.installed
	@echo "Installing the TPU's compiler (no TPU is needed)"
	@mkdir -p $(COMPILERS)/tpu
	@$(PIP) install --upgrade --no-compile --no-deps --target $(COMPILERS)/tpu "$$($(BIN)/python -c 'from importlib.metadata import requires; print(next(each.split(";")[0] for each in requires("jax") if each.startswith("libtpu")))')" \
	  && touch $@ || echo "There is none for this machine: the tests of compiled programs are skipped"

$(COMPILERS)/cuda/.installed: $(VENV)/.installed
	@echo "Installing NVIDIA's compiler (no GPU is needed; 5 GB)"
	@$(PYTHON) -m venv $(COMPILERS)/cuda
	@$(COMPILERS)/cuda/bin/python -m pip install --quiet --no-compile --requirement requirements.lock
	@$(COMPILERS)/cuda/bin/python -m pip install --quiet --no-compile "jax[cuda12]==$$($(BIN)/python -c 'import jax; print(jax.__version__)')"
	@touch $@

# The engine's programs as the vendors' compilers make them: memory, kernels, branches, a bound of the speed.
compiled: install-dev tpu-compiler $(COMPILERS)/cuda/.installed
	@TPU_LIBRARY_PATH=$(COMPILERS)/tpu/libtpu/libtpu.so $(BIN)/python benchmarks/compiled.py --on v5e --checkpoint demo
	@CUDA_COMPILER_PYTHON=$(COMPILERS)/cuda/bin/python $(BIN)/python -m pytest --quiet tests/integration/engine/test_compiled_programs.py
	@PYTHONPATH=$(CURDIR) $(COMPILERS)/cuda/bin/python benchmarks/compiled.py --on h200 --checkpoint demo sd15 sdxl
	@PYTHONPATH=$(CURDIR) $(COMPILERS)/cuda/bin/python benchmarks/compiled_watermark.py --on h200

# One page of an accelerator's figures: ON=gpu, ON=tpu, or ON=cpu for the rehearsal. JAX with its device and torch have
# environments of their own: both bring NVIDIA's libraries, in different versions.
ON ?= $(shell nvidia-smi -L >/dev/null 2>&1 && echo gpu || { ls /dev/accel* /dev/vfio/[0-9]* >/dev/null 2>&1 && echo tpu; })
ACCELERATOR := .accelerator
EXTRA_OF_gpu := cuda
EXTRA_OF_tpu := tpu
MEASURE = benchmarks/accelerator.py --on $(ON) --page accelerator-$(ON).md

accelerator:
	@$(MAKE) --no-print-directory accelerator-$(or $(filter cpu gpu tpu,$(ON)),unknown)

accelerator-unknown:
	@echo "There is no accelerator $(ON) here. Name one with ON=gpu or ON=tpu; ON=cpu rehearses without one."; exit 1

accelerator-cpu: install-dev
	@$(BIN)/python $(MEASURE)

accelerator-gpu: $(ACCELERATOR)/gpu/.installed $(ACCELERATOR)/torch/.installed
	@$(ACCELERATOR)/gpu/bin/python $(MEASURE) --room $(ACCELERATOR)/checkpoints --torch-python $(ACCELERATOR)/torch/bin/python

accelerator-tpu: $(ACCELERATOR)/tpu/.installed $(ACCELERATOR)/torch/.installed
	@$(ACCELERATOR)/tpu/bin/python $(MEASURE) --room $(ACCELERATOR)/checkpoints --torch-python $(ACCELERATOR)/torch/bin/python

$(ACCELERATOR)/gpu/.installed $(ACCELERATOR)/tpu/.installed: $(ACCELERATOR)/%/.installed: pyproject.toml requirements.lock requirements-cuda.lock requirements-tpu.lock
	@echo "Installing JAX for a $* into $(ACCELERATOR)/$*"
	@$(PYTHON) -m venv $(ACCELERATOR)/$*
	@$(ACCELERATOR)/$*/bin/python -m pip install --quiet $(LOCKED) requirements.lock
	@$(ACCELERATOR)/$*/bin/python -m pip install --quiet $(LOCKED) requirements-$(EXTRA_OF_$*).lock
	@touch $@

$(ACCELERATOR)/torch/.installed: pyproject.toml requirements.lock requirements-dev.lock
	@echo "Installing torch into $(ACCELERATOR)/torch"
	@$(PYTHON) -m venv $(ACCELERATOR)/torch
	@$(ACCELERATOR)/torch/bin/python -m pip install --quiet $(LOCKED) requirements.lock
	@$(ACCELERATOR)/torch/bin/python -m pip install --quiet $(LOCKED) requirements-dev.lock
	@$(ACCELERATOR)/torch/bin/python -m pip install --quiet --no-compile $(TORCH)
	@touch $@

demo: install
	@$(BIN)/sdjax-bot demo

lint: install-dev
	@echo "Formatting and lint"
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .

types: install-dev
	@echo "Types"
	@$(BIN)/mypy --no-error-summary

layers: install-dev
	@echo "Import layers"
	@$(BIN)/lint-imports --no-cache > .import-layers.txt || { cat .import-layers.txt; rm -f .import-layers.txt; exit 1; }
	@rm -f .import-layers.txt

# Many tests wait in real time, for leases and timers. The third process uses the two cores meanwhile.
NEEDED := browser tpu-compiler
tests: install-dev $(NEEDED)
	@echo "Tests"
	@$(BIN)/python tests/prefork.py 3 --quiet --no-loadscope-reorder --max-worker-restart 2

# What the tests need is installed side by side. Types are checked beside the first tests, which leave some
# time of two cores over.
test:
	@$(MAKE) --no-print-directory --jobs 3 lint $(NEEDED)
	@$(MAKE) --no-print-directory --jobs 2 types layers tests NEEDED=

# The unit tests that neither write checkpoints nor compile networks.
unit: install-dev
	@echo "Unit tests"
	@$(BIN)/python -m pytest --quiet --numprocesses 2 --dist worksteal tests/unit tests/architecture/test_docs.py --ignore tests/unit/weights --ignore tests/unit/models

# What a change should pass before it is pushed; under a minute. Types are checked beside the first unit tests.
check:
	@$(MAKE) --no-print-directory --jobs 2 lint types layers unit

# Every picture of docs/images, from the bot on the sandbox's page. Look at each before a commit.
pictures: install-dev browser
	@PYTHONPATH=.:tests:tests/integration $(BIN)/python tests/demo/renew_pictures.py $(ONLY)

# Changes a MODULE in small ways, and prints the changes that none of the TESTS notices; not part of `make test`.
mutants: install-dev
	@PYTHONPATH=tests $(BIN)/python tests/mutants.py $(MODULE) $(TESTS)

# Resolves every package again, for every supported Python: newest versions, hashes, no addresses.
lock: $(VENV)/bin/python
	@$(PIP) install --upgrade uv
	@printf 'uv\n' | $(LOCK) --output-file requirements-uv.lock -
	@printf 'pip\nsetuptools\n' | $(LOCK) --output-file requirements.lock - pyproject.toml
	@printf 'torch; python_version < "0"\n' > .without-torch.txt
	@printf 'pip\nsetuptools\n' | $(LOCK) --output-file requirements-dev.lock --extra dev \
	  --constraint requirements.lock --override .without-torch.txt - pyproject.toml; \
	  status=$$?; rm -f .without-torch.txt; exit $$status
	@for extra in $(LOCKED_EXTRAS); do $(LOCK) --extra $$extra --constraint requirements.lock \
	  $$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.lock | sort --unique) \
	  --output-file requirements-$$extra.lock pyproject.toml || exit 1; done
	@printf 'build\ncyclonedx-bom\npip-licenses\npip\nsetuptools\n' | $(LOCK) --constraint requirements.lock \
	  --output-file requirements-release.lock -

# Asks the package index for known vulnerabilities of every locked version; fails where it cannot ask.
audit: $(VENV)/bin/python
	@$(PIP) install pip-audit
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock --requirement requirements-dev.lock

# Source, wheel, SBOM and notices in dist/; the wheel has painted in an empty environment, and in one of each Python that
# TRY names.
release:
	@PYTHON="$(PYTHON)" TRY="$(TRY)" deploy/make-release

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
