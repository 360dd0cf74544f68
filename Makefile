# The two commands of the README. Everything they need is installed by dev/install.
APP ?= firefox-esr
RUNS ?= 10

PREFIX ?= /usr/local

.PHONY: demo test build dist install icegrind lint fuzz mutants clean

# Installs what is missing, builds, records a real browser (cold and hot), prints the answer, writes the report into demo/.
demo:
	dev/demo $(APP) $(RUNS)

# Everything that CI runs.
test:
	dev/test

# thaw, the guest of `thaw heap`, the Valgrind tool of `thaw touch --engine byte`.
build:
	dev/build

# What is shipped, in dist/: the stripped program, its debug data apart, man pages, completions, licences, a bill of materials.
dist:
	dev/dist

# That, below PREFIX; DESTDIR for packagers.
install: dist
	dev/install-thaw $(PREFIX)

# The Valgrind tool alone, into target/icegrind.
icegrind:
	dev/icegrind

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

# A minute of every fuzz target; needs a nightly toolchain and cargo-fuzz.
fuzz:
	dev/fuzz 60

# Changes of a room's code that its tests do not notice: make mutants ROOM=base/elf (docs/mutants.md). Takes long.
ROOM ?=
mutants:
	dev/mutants $(ROOM)

clean:
	cargo clean
	rm -rf demo dist
