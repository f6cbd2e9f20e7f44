# make study [PROFILE=laptop]   measure everything; figures, tables and a report (PROFILE=smoke: a quick look)
# make test                     every test this machine can run; says what was skipped and why
# make lab                      JupyterLab on the notebooks
# make lint                     ruff and mypy
# make clean                    remove .venv and caches; what was measured stays
#
# Each sets itself up in .venv first. Another Python: make study PYTHON=python3.12

PROFILE ?= laptop
PYTHON  ?= $(firstword $(wildcard .venv/bin/python) python3)
BIN     := .venv/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
RUN     := .venv/.installed-run-$(VERSION)
DEV     := .venv/.installed-dev-$(VERSION)

.PHONY: help study test lab lint clean
help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

study: $(RUN)
	@$(BIN)/kanstudy run --profile "$(PROFILE)"

lab: $(RUN)
	@$(BIN)/jupyter lab notebooks

# one run over tests and notebooks; -m '' takes the tests that plain pytest leaves out
test: $(DEV)
	@$(BIN)/python -m pytest -q -rs -m '' --nbval --nbval-current-env tests notebooks

lint: $(DEV)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find kanstudy tests -name __pycache__ -prune -exec rm -rf {} +

# the stamps: installed again only when pyproject.toml, constraints.txt or the Python changes
$(RUN): INSTALL = .
$(DEV): INSTALL = .[test,dev]
$(RUN) $(DEV): pyproject.toml constraints.txt
	@case "$(VERSION)" in 3.11|3.12|3.13) ;; *) \
	  echo "$(PYTHON) is Python $(or $(VERSION),(not found)): kanstudy needs 3.11 to 3.13; name one: make PYTHON=python3.12" >&2; exit 1;; esac
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv || { \
	  echo "No virtual environment could be made. On Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@$(BIN)/python -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(VERSION)")' || { \
	  echo ".venv has another Python than $(PYTHON) ($(VERSION)): run make clean first" >&2; exit 1; }
	@echo "Installing into .venv (once; a few minutes) ..."
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '$(INSTALL)'
	@touch $@
