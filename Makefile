# The two commands of the README. Everything they need is installed by dev/install.
APP ?= firefox-esr
RUNS ?= 10

PREFIX ?= /usr/local

.PHONY: demo test build dist install site packages icegrind lint fuzz miri mutants clean

# Installs what is missing, builds, records a real browser (cold and hot), prints the answer, writes the report into demo/.
demo:
	dev/demo $(APP) $(RUNS)

# Everything that CI runs.
test:
	dev/test

# thaw, the guest of `thaw heap`, the Valgrind tool of `thaw touch --engine byte`.
build:
	dev/build

# What is shipped, in dist/: the stripped programs, debug data apart, libraries for C, man pages, completions, licences, a bill of materials.
dist:
	dev/dist

# That, below PREFIX; DESTDIR for packagers.
install: dist
	dev/install-thaw $(PREFIX)

# The documents as pages without a server, into target/site (`thaw docs` opens them). Needs Node.js 20.
site: build
	dev/site target/site

# Debian packages and the tarball of what is shipped, in dist/packages; KEY names the key of gpg that signs (docs/packages.md).
KEY ?=
packages: dist
	dev/packages $(if $(KEY),--key $(KEY)) dist/thaw-*/ dist/packages
	dev/tarball $(if $(KEY),--key $(KEY)) dist/thaw-*/ dist/packages

# The Valgrind tool alone, into target/icegrind.
icegrind:
	dev/icegrind

# Rust and the page's TypeScript.
lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	dev/pictures --check
	@if command -v npm >/dev/null; then \
		{ [ -x viewer/node_modules/.bin/biome ] || npm ci --prefix viewer --no-audit --no-fund --silent; } && \
		npm run --prefix viewer --silent check; \
	else echo "make lint: the page is not linted: needs npm and Node.js 20 or newer" >&2; fi

# The heap guest's lanes under Miri: borrows and data races. Needs a nightly toolchain with the components miri and rust-src.
miri:
	MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-ignore-leaks" cargo +nightly miri test -p heap-agent --lib -- head:: lane:: cache::

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
