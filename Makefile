# Every target makes the environment that it needs. Nothing but Python (with venv) and a C++ compiler is asked for.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin
SOURCES := pyproject.toml CMakeLists.txt README.md $(shell find src -type f -not -name '*.pyc')
CPP := $(wildcard src/core/*.hpp src/core/*.cpp tests/*.cpp benchmarks/*.cpp)
CORE_TESTS := $(addprefix tests/test_,bits.py histogram.py logistic.py trees.py conditional.py boosting.py edge_cases.py particles.py coder.py)
STUBGEN = mkdir -p build && $(RUN)/python -m nanobind.stubgen --quiet -m lbarn._core -o build/_core.pyi

.PHONY: wheel demo test test-oldest fuzz torture lint format stubs docs bench sanitize clean

# A few minutes for environment and build, once; then about 20 seconds.
demo: $(VENV)/installed
	$(RUN)/python -m lbarn.demo

test: $(VENV)/test
	$(RUN)/python -m pytest -n 2 --dist loadfile $(ARGS)

# With the oldest version of every dependency that pyproject.toml allows; OLDEST is the oldest Python that it allows.
OLDEST ?= python3.10
test-oldest: .venv-oldest/test
	.venv-oldest/bin/python -m pytest -n 2 --dist loadfile $(ARGS)

# Kills fits at random moments, N of them in all, and continues them.
torture: $(VENV)/test
	$(RUN)/python tests/torture.py $(or $(N),100)

# Damaged and crafted files against everything that reads, a few minutes; make fuzz N=20000 SEED=1 for others.
fuzz: $(VENV)/test
	$(RUN)/python tests/fuzz.py -n $(or $(N),2000) --seed $(or $(SEED),0)

# Sdist and wheel, built in isolation into dist/ and tried without a compiler; make wheel PYTHON=python3.12 TRY=python3.13
# also tries the wheel with other versions.
wheel:
	packaging/wheel.sh $(PYTHON) $(TRY)

lint: $(VENV)/lint
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/clang-format --dry-run --Werror $(CPP)
	$(STUBGEN)
	diff -u src/lbarn/_core.pyi build/_core.pyi  # make stubs writes it anew
	$(RUN)/mypy
	PYTHONPATH=src $(RUN)/lint-imports

format: $(VENV)/lint
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .
	$(RUN)/clang-format -i $(CPP)

# What the type checker knows of the core, as the core itself tells it.
stubs: $(VENV)/lint
	$(STUBGEN)
	cmp -s build/_core.pyi src/lbarn/_core.pyi || cp build/_core.pyi src/lbarn/_core.pyi

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

.venv-oldest/bin/python:
	$(OLDEST) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade pip

.venv-oldest/test: .venv-oldest/bin/python packaging/oldest.py $(SOURCES)
	.venv-oldest/bin/python packaging/oldest.py > .venv-oldest/oldest.txt
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/oldest.txt ".[all]"
	.venv-oldest/bin/python -m pip install --quiet --constraint .venv-oldest/oldest.txt --group test
	touch $@

clean:
	rm -rf $(VENV) .venv-sanitize .venv-oldest build dist
