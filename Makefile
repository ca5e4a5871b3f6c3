# Every target makes the environment that it needs. Nothing but Python (with venv) and a C++ compiler is asked for.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt README.md $(shell find src -type f -not -name '*.pyc')
CPP := $(wildcard src/core/*.hpp src/core/*.cpp tests/*.cpp benchmarks/*.cpp)
CORE_TESTS := $(addprefix tests/test_,bits.py histogram.py logistic.py conditional.py boosting.py edge_cases.py)

.PHONY: demo test lint format docs bench sanitize clean

# Half a minute of building, once, and about ten seconds of demo.
demo: $(VENV)/installed
	$(RUN)/python -m lbarn.demo

test: $(VENV)/test
	$(RUN)/python -m pytest -n 2 --dist loadfile $(ARGS)

lint: $(VENV)/lint
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/clang-format --dry-run --Werror $(CPP)
	$(RUN)/mypy

format: $(VENV)/lint
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .
	$(RUN)/clang-format -i $(CPP)

# The documentation as a site, in build/site; warnings are errors (mkdocs.yml). Needs no network once its environment is there.
docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(RUN)/mkdocs build --strict
	@echo "built; open build/site/index.html, or with search: $(RUN)/python -m http.server -d build/site"

bench: $(VENV)/bench
	$(RUN)/python benchmarks/bench_histogram.py
	$(RUN)/python benchmarks/bench_engine.py

# The core under AddressSanitizer and UBSan, in an environment of its own. Python itself is not built with it, so the
# runtime is loaded first, and its leaks are not ours.
sanitize: .venv-sanitize/installed
	env LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	  .venv-sanitize/bin/python -m pytest $(CORE_TESTS)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(RUN)/python -m pip install --quiet --upgrade pip

$(VENV)/installed: $(VENV)/bin/python $(SOURCES)
	$(RUN)/python -m pip install --quiet -Ccmake.define.LBARN_STRICT=ON ".[all]"
	touch $@

$(VENV)/test: $(VENV)/installed
	$(RUN)/python -m pip install --quiet --group test
	touch $@

$(VENV)/lint: $(VENV)/installed
	$(RUN)/python -m pip install --quiet --group lint
	touch $@

$(VENV)/docs: $(VENV)/installed
	$(RUN)/python -m pip install --quiet --group docs
	touch $@

$(VENV)/bench: $(VENV)/installed
	$(RUN)/python -m pip install --quiet --group bench
	touch $@

.venv-sanitize/bin/python:
	$(PYTHON) -m venv .venv-sanitize
	.venv-sanitize/bin/python -m pip install --quiet --upgrade pip

.venv-sanitize/installed: .venv-sanitize/bin/python $(SOURCES)
	.venv-sanitize/bin/python -m pip install --quiet -Ccmake.define.LBARN_STRICT=ON -Ccmake.define.LBARN_SANITIZE=ON \
	  -Cbuild-dir=build/sanitize .
	.venv-sanitize/bin/python -m pip install --quiet --group test
	touch $@

clean:
	rm -rf $(VENV) .venv-sanitize build
