//! What is shipped: Debian packages, their archive, and the tarball, judged by Debian's own tools. Made of what cargo
//! has built for the tests; used in a Debian of its own (`dev/userland`), whose mounts end with each command. The
//! machine's own apt is not touched.

use crate::heap::guest;
use crate::pages::served_by;
use crate::scratch::{Mortal, Said, Scratch, alone, root};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Without these nothing can be made: programs with their Debian packages.
const NEEDED: [(&str, &str); 7] = [
    ("dpkg-deb", "dpkg"),
    ("dpkg-shlibdeps", "dpkg-dev"),
    ("patchelf", "patchelf"),
    ("apt-ftparchive", "apt-utils"),
    ("gpg", "gpg"),
    ("gpgv", "gpgv"),
    ("python3", "python3"),
];

/// Whether `dev/tree` has all that it needs; if not, the test is counted as skipped.
fn can_be_made() -> bool {
    let beside = Path::new(env!("CARGO_BIN_EXE_thaw")).parent().unwrap();
    for crate_name in ["proxy", "storage", "fleet"] {
        if !beside.join(format!("thaw-{crate_name}")).exists() {
            testing::skip(&format!("thaw-{crate_name} is not built: cargo build -p thawlab-{crate_name}"));
            return false;
        }
    }
    for library in ["thaw_cache", "thaw_session_c", "thaw_webstorage_c", "thaw_memreport"] {
        let name = format!("lib{library}.so");
        if ![beside.join(&name), beside.join("deps").join(&name)].iter().any(|path| path.exists()) {
            testing::skip(&format!("{name} is not built: cargo build --workspace"));
            return false;
        }
    }
    if !root().join("viewer/node_modules").exists() {
        testing::skip("the licences of the viewer's packages are needed: npm ci --prefix viewer");
        return false;
    }
    for (program, package) in NEEDED {
        if os::spawn::resolve_program(program.as_ref()).is_err() {
            testing::skip(&format!("needs {program} (Debian: the package {package})"));
            return false;
        }
    }
    guest()
}

/// A command of a script of `dev/`, about to be run.
fn dev(script: &str) -> Command {
    let mut command = Command::new(root().join("dev").join(script));
    command.env("CARGO", env!("CARGO"));
    command
}

/// What would be installed, from the programs beside this test.
fn tree(scratch: &Scratch) -> PathBuf {
    let tree = scratch.path("tree");
    let built = Path::new(env!("CARGO_BIN_EXE_thaw")).parent().unwrap();
    let mut command = dev("tree");
    command.args([built, &tree]);
    Said::of(command).exits(0);
    tree
}

/// Keys of gpg, which has a process of its own as long as they are there.
struct Keys(PathBuf);

impl Keys {
    fn new(scratch: &Scratch) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let home = scratch.path("gpg");
        std::fs::create_dir(&home).unwrap();
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(0o700)).unwrap();
        let keys = Self(home);
        for name in ["publisher", "somebody"] {
            let mut command = Command::new("gpg");
            command.args(["--batch", "--quiet", "--passphrase", "", "--quick-generate-key", name, "ed25519", "sign"]);
            Said::of(keys.known_to(command)).exits(0);
        }
        keys
    }

    fn known_to(&self, mut command: Command) -> Command {
        command.env("GNUPGHOME", &self.0);
        command
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = self.known_to(Command::new("gpgconf")).args(["--kill", "all"]).output();
    }
}

/// `dev/packages` into a directory; the packages by name.
fn packages(scratch: &Scratch, keys: &Keys, revision: &str, into: &str, around: &[(&str, &str)]) -> Vec<PathBuf> {
    let mut command = keys.known_to(dev("packages"));
    command.args(["--level", "none", "--key", "publisher", "--revision", revision]);
    command.arg(scratch.path("tree")).arg(scratch.path(into)).envs(around.iter().copied());
    Said::of(command).exits(0);
    scratch.names(into).into_iter().map(|name| scratch.path(into).join(name)).collect()
}

/// A Debian in a directory: a copy, removed with the scratch folder.
struct Debian(PathBuf);

impl Debian {
    /// `None`: it cannot be had, counted as skipped.
    fn new(scratch: &Scratch, suite: &str) -> Option<Self> {
        if !testing::root_or_skip() {
            return None;
        }
        let said = dev("userland").arg(suite).output().unwrap();
        if !said.status.success() {
            testing::skip(String::from_utf8_lossy(&said.stderr).trim().lines().last().unwrap_or("dev/userland fails"));
            return None;
        }
        let debian = Self(scratch.path(suite));
        let base = String::from_utf8(said.stdout).unwrap();
        let copied = Command::new("cp").args(["-a", "--reflink=auto", base.trim()]).arg(&debian.0).status().unwrap();
        assert!(copied.success());
        // Nothing comes from elsewhere.
        std::fs::write(debian.path("etc/apt/sources.list"), "").unwrap();
        Some(debian)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A shell script in there, about to be run. What is mounted for it goes with its namespace.
    fn command(&self, script: &str) -> Command {
        const ENTER: &str = r#"
            set -e
            for name in proc sys dev; do mount --rbind "/$name" "$0/$name"; done
            exec chroot "$0" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
                DEBIAN_FRONTEND=noninteractive sh -ec "$1""#;
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", ENTER]).arg(&self.0).arg(script).stdin(Stdio::null());
        command
    }

    fn run(&self, script: &str) -> Said {
        Said::of(self.command(script))
    }

    /// From which archive apt gets packages, and by whose key it believes it.
    fn source(&self, address: &str) {
        let source = format!(
            "Types: deb\nURIs: {address}\nSuites: stable\nComponents: main\n\
             Signed-By: /usr/share/keyrings/thawlab-archive-keyring.gpg\n"
        );
        std::fs::write(self.path("etc/apt/sources.list.d/thawlab.sources"), source).unwrap();
    }

    /// All files but those that apt and dpkg write whatever is done.
    fn files(&self) -> String {
        let but = "proc sys dev tmp var/log var/cache var/lib/apt var/lib/dpkg".split(' ');
        let but: Vec<String> = but.map(|name| format!("-path /{name}")).collect();
        self.run(&format!("find / \\( {} \\) -prune -o -print | sort", but.join(" -o "))).exits(0).out()
    }
}

/// A directory on the loopback, as any web server gives it.
struct Server {
    address: String,
    log: PathBuf,
    _process: Mortal,
}

impl Server {
    fn new(scratch: &Scratch, directory: &Path) -> Self {
        let log = scratch.path("requests");
        let mut command = Command::new("python3");
        command.args(["-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory"]).arg(directory).arg("0");
        command.stdout(Stdio::piped()).stderr(std::fs::File::create(&log).unwrap());
        let mut process = Mortal(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split(['(', ')']).find(|part| part.starts_with("http")).unwrap().trim_end_matches('/');
        Self { address: address.to_owned(), log, _process: process }
    }
}

fn archive(keys: &Keys, key: &str, directory: &Path, packages: &[PathBuf]) -> Command {
    let mut command = keys.known_to(dev("archive"));
    command.args(["--key", key]).arg(directory).args(packages);
    command
}

/// Changes a byte in the middle of a file.
fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn ending(directory: &Path, is_meant: &dyn Fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            ending(&path, is_meant, found);
        } else if is_meant(&path) {
            found.push(path);
        }
    }
}

#[test]
fn packages_are_installed_upgraded_taken_back_purged_and_refused() {
    if !can_be_made() {
        return;
    }
    let scratch = Scratch::new();
    let Some(debian) = Debian::new(&scratch, "bookworm") else { return };
    tree(&scratch);
    let keys = Keys::new(&scratch);
    let first = packages(&scratch, &keys, "1", "first", &[]);
    // The same bytes, whenever and wherever.
    let again = packages(&scratch, &keys, "1", "again", &[("TZ", "Asia/Tokyo"), ("LC_ALL", "C")]);
    assert!(first.len() >= 4, "{first:?}");
    for (one, other) in first.iter().zip(&again) {
        assert_eq!(one.file_name(), other.file_name());
        assert!(std::fs::read(one).unwrap() == std::fs::read(other).unwrap(), "{} differs", one.display());
    }
    lintian(&first);
    let second = packages(&scratch, &keys, "2", "second", &[]);

    let served = scratch.path("served");
    let good = served.join("good");
    std::fs::create_dir(&served).unwrap();
    Said::of(archive(&keys, "publisher", &good, &first)).exits(0);
    Said::of(archive(&keys, "publisher", &good, &second)).exits(0);
    let changed = scratch.path(first[0].file_name().unwrap());
    std::fs::copy(&first[0], &changed).unwrap();
    damage(&changed);
    Said::of(archive(&keys, "publisher", &good, &[changed])).exits(1).complains("another revision");
    Said::of(archive(&keys, "nobody", &good, &[])).exits(2);

    let server = Server::new(&scratch, &served);
    let version = |revision: &str| format!("{}-{revision}", env!("CARGO_PKG_VERSION"));
    let before = debian.files();
    let keyring = debian.path("usr/share/keyrings/thawlab-archive-keyring.gpg");
    std::fs::create_dir_all(keyring.parent().unwrap()).unwrap();
    std::fs::copy(good.join("thawlab-archive-keyring.gpg"), &keyring).unwrap();

    refused(&debian, &keys, &server, &served);

    debian.source(&format!("{}/good", server.address));
    debian.run("apt-get update").exits(0);
    let requests = std::fs::read_to_string(&server.log).unwrap();
    assert!(requests.contains("GET /good/dists/stable/main/binary-amd64/by-hash/SHA256/"), "{requests}");
    let install = |what: &str| debian.run(&format!("apt-get install -y --no-install-recommends {what}"));
    let installed = || debian.run("dpkg-query -W -f '${Version}' thawlab").exits(0).out();
    install(&format!("thawlab={} thawlab-archive-keyring libthaw-dev", version("1"))).exits(0);
    assert_eq!(installed(), version("1"));
    works(&debian, "thaw", "/usr/lib/thaw/libthaw_heap.so");
    linked(&scratch, &debian);
    debian.run("apt-get upgrade -y").exits(0);
    assert_eq!(installed(), version("2"));
    install(&format!("--allow-downgrades thawlab={}", version("1"))).exits(0);
    assert_eq!(installed(), version("1"));
    debian.run("dpkg --verify thawlab").exits(0).says_not("??");
    debian.run("apt-get purge -y --auto-remove thawlab libthaw-dev thawlab-archive-keyring").exits(0);
    std::fs::remove_file(debian.path("etc/apt/sources.list.d/thawlab.sources")).unwrap();
    assert_eq!(debian.run("dpkg-query -W '*thaw*' 2>/dev/null || true").exits(0).out(), "");
    let after = debian.files();
    let more: Vec<&str> = after.lines().filter(|line| !before.lines().any(|old| old == *line)).collect();
    let less: Vec<&str> = before.lines().filter(|line| !after.lines().any(|new| new == *line)).collect();
    assert!(more.is_empty() && less.is_empty(), "left: {more:#?}, gone: {less:#?}");
}

/// Debian's own judge of packages; what it may not say is in `dev/debian`, with the reason.
fn lintian(packages: &[PathBuf]) {
    if os::spawn::resolve_program("lintian".as_ref()).is_err() {
        return testing::skip("the packages are not judged: needs lintian");
    }
    let mut command = Command::new("lintian");
    // Packages of Debian's own archive close a request for them; these were packed for the test.
    const OTHERS: &str = "initial-upload-closes-no-bugs,uses-no-compression-for-control-tarball,\
                          uses-no-compression-for-data-tarball";
    command.args(["--fail-on", "error,warning", "--allow-root", "--suppress-tags", OTHERS]);
    // It takes a minute for the static libraries of a build for tests; `dev/release` has it judge all.
    command.args(packages.iter().filter(|path| !path.to_string_lossy().contains("libthaw-dev")));
    Said::of(command).exits(0);
}

/// What apt says to archives that somebody else has changed.
fn refused(debian: &Debian, keys: &Keys, server: &Server, served: &Path) {
    let copy = |name: &str| {
        let status = Command::new("cp").arg("-a").args([served.join("good"), served.join(name)]).status().unwrap();
        assert!(status.success());
        served.join(name)
    };
    let update = |name: &str| {
        debian.source(&format!("{}/{name}", server.address));
        debian.run("rm -rf /var/lib/apt/lists/*; apt-get update")
    };
    let damaged = |directory: &Path, is_meant: &dyn Fn(&Path) -> bool| {
        let mut found = Vec::new();
        ending(directory, is_meant, &mut found);
        assert!(!found.is_empty());
        found.iter().for_each(|path| damage(path));
    };
    // Nothing is known of an archive that was refused.
    let refused = |name: &str| {
        let said = update(name).exits(100);
        debian.run("apt-get install -y thawlab").exits(100).complains("Unable to locate package thawlab");
        said
    };
    damaged(&copy("index").join("dists"), &|path| !path.file_name().unwrap().to_string_lossy().contains("Release"));
    refused("index").complains("Hash Sum mismatch");
    damaged(&copy("release").join("dists"), &|path| path.ends_with("InRelease"));
    refused("release");
    let other = copy("key");
    Said::of(archive(keys, "somebody", &other, &[])).exits(0);
    refused("key").complains("is not signed").complains("NO_PUBKEY");
    let old = copy("expired");
    let mut command = archive(keys, "publisher", &old, &[]);
    command.env("SOURCE_DATE_EPOCH", "1700000000");
    Said::of(command).exits(0);
    refused("expired").complains("is expired");
    damaged(&copy("package").join("pool"), &|path| path.extension().is_some_and(|it| it == "deb"));
    update("package").exits(0);
    debian.run("apt-get install -y thawlab").exits(100).complains("Hash Sum mismatch");
    debian.run("rm -rf /var/lib/apt/lists/*; dpkg-query -W thawlab").exits(1);
}

/// What a user does first, with a thaw that is found by this name.
fn works(debian: &Debian, thaw: &str, guest: &str) {
    let _machine = alone();
    let run = |words: &str| debian.run(&format!("cd /root; {thaw} {words}"));
    run("--version").exits(0).says(env!("CARGO_PKG_VERSION"));
    run("--version --verbose").exits(0).says(&format!("thaw heap: {guest}, guest {}", env!("CARGO_PKG_VERSION")));
    run("docs --print").exits(0).says("site/index.html");
    run("heap run -o a.heap -- /bin/ls /").exits(0).says("allocations");
    run("record -o a.thaw --state cold,hot --runs 1 -- /bin/ls /").exits(0);
    run("report a.thaw").exits(0).says("/bin/ls");
    let page = served_by(debian.command(&format!("cd /root; exec {thaw} view --no-browser a.thaw")));
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<!doctype html>"), "{page:.300}");
    debian.run("rm -r /root/a.heap /root/a.thaw").exits(0);
}

/// A program that was built with the library of the packages finds it where they are installed.
fn linked(scratch: &Scratch, debian: &Debian) {
    let folders = ["usr/lib/x86_64-linux-gnu", "usr/include"].map(|name| debian.path(name));
    let (source, program) = (root().join("embed/session-c/example/tabs.c"), debian.path("root/tabs"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-I"]).arg(&folders[1]).arg(source).arg("-L").arg(&folders[0]);
    if testing::compiled(cc.args(["-lthaw_session_c", "-o"]).arg(&program)) {
        debian.run("/root/tabs /root/tabs.session; rm -r /root/tabs*").exits(0);
    }
    let mut pkg_config = Command::new("pkg-config");
    pkg_config.args(["--cflags", "--libs", "thaw_session", "thaw_events"]);
    pkg_config.env("PKG_CONFIG_LIBDIR", folders[0].join("pkgconfig")).env("PKG_CONFIG_SYSROOT_DIR", scratch.path(""));
    if pkg_config.output().is_ok() {
        Said::of(pkg_config).exits(0).says("-lthaw_session_c");
    }
}

/// One archive that runs wherever it is unpacked, in a Debian that knows nothing of it.
#[test]
fn the_tarball_runs_where_it_is_unpacked() {
    if !can_be_made() {
        return;
    }
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    // Those of a build for tests are large.
    std::fs::remove_dir_all(tree.join("lib/debug")).unwrap();
    for library in scratch.names("tree/lib").into_iter().filter(|name| name.ends_with(".a")) {
        std::fs::remove_file(tree.join("lib").join(library)).unwrap();
    }
    let keys = Keys::new(&scratch);
    let make = |into: &str| {
        let mut command = keys.known_to(dev("tarball"));
        command.args(["--key", "publisher", "--level", "0"]).arg(&tree).arg(scratch.path(into));
        PathBuf::from(Said::of(command).exits(0).out().trim())
    };
    let made = make("made");
    assert!(std::fs::read(&made).unwrap() == std::fs::read(make("again")).unwrap(), "{} differs", made.display());
    let there = |program: &str, words: &[&str]| {
        let mut command = keys.known_to(Command::new(program));
        command.args(words).current_dir(scratch.path("made"));
        Said::of(command)
    };
    there("gpg", &["--verify", "SHA256SUMS.asc", "SHA256SUMS"]).exits(0);
    there("sha256sum", &["--check", "SHA256SUMS"]).exits(0);
    damage(&scratch.path("made/SHA256SUMS"));
    there("gpg", &["--verify", "SHA256SUMS.asc", "SHA256SUMS"]).exits(1);
    // Others by name, of those that the machine's mirror has: THAW_TEST_SUITES="trixie".
    let suites = std::env::var("THAW_TEST_SUITES").unwrap_or_else(|_| "bookworm".into());
    for suite in suites.split_whitespace() {
        let Some(debian) = Debian::new(&scratch, suite) else { continue };
        let unpacked = Command::new("tar").arg("-xf").arg(&made).arg("-C").arg(debian.path("opt")).status().unwrap();
        assert!(unpacked.success());
        let name = made.file_name().unwrap().to_str().unwrap().trim_end_matches(".tar.xz");
        works(&debian, &format!("/opt/{name}/bin/thaw"), &format!("/opt/{name}/lib/thaw/libthaw_heap.so"));
    }
}

#[test]
fn the_libraries_can_be_packed_as_crates() {
    let scratch = Scratch::new();
    let mut command = Command::new(env!("CARGO"));
    command.args(["package", "--no-verify", "--offline", "--allow-dirty", "--locked"]).current_dir(root());
    command.env("CARGO_TARGET_DIR", scratch.path(""));
    let mut names = Vec::new();
    for directory in std::fs::read_dir(root().join("embed")).unwrap() {
        let manifest = std::fs::read_to_string(directory.unwrap().path().join("Cargo.toml")).unwrap();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"')).unwrap();
        if manifest.contains("publish = true") {
            assert!(manifest.contains("description = "), "{name}: an archive of crates asks what it is for");
            command.args(["-p", name]);
            names.push(name.to_owned());
        }
    }
    assert!(names.len() > 10, "{names:?}");
    Said::of(command).exits(0);
    for name in names {
        let version = env!("CARGO_PKG_VERSION");
        assert!(scratch.path(format!("package/{name}-{version}.crate")).exists(), "{name}");
    }
}
