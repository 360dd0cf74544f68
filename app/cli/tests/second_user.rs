//! A second user beside root: links, further names, pipes, directories and renames, again and again, in the directories
//! that this user may write, while root runs each verb. What only root may read and write must stay as it is, whatever
//! comes out.

use crate::scratch::{Mortal, Said, Scratch, alone};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use testing::{Rival, SECOND_USER};

/// Settings of the kernel that keep links and files of others in sticky directories from being followed and written.
const PROTECTIONS: [&str; 4] = ["protected_symlinks", "protected_hardlinks", "protected_regular", "protected_fifos"];

/// Holds these settings at one value; dropping it puts them back.
struct Protected(Vec<(PathBuf, String)>);

impl Protected {
    fn at(value: &str) -> Self {
        let files = PROTECTIONS.iter().map(|name| Path::new("/proc/sys/fs").join(name));
        let before = files.map(|file| (file.clone(), fs::read_to_string(file).unwrap())).collect();
        let held = Self(before);
        held.0.iter().for_each(|(file, _)| fs::write(file, value).unwrap());
        held
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        self.0.iter().for_each(|(file, before)| fs::write(file, before).unwrap());
    }
}

/// Root's secret directory, and the second user's.
struct Scene {
    scratch: Scratch,
    secret: Vec<String>,
}

/// Everything in a directory: names, modes, owners, content.
fn picture(directory: &Path) -> Vec<String> {
    let mut all: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let about = path.symlink_metadata().unwrap();
            let content = if about.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            let content = String::from_utf8_lossy(&content).into_owned();
            format!("{} {:o} {}:{} {content:?}", path.display(), about.mode(), about.uid(), about.gid())
        })
        .collect();
    all.sort();
    all
}

impl Scene {
    fn new() -> Self {
        let scratch = Scratch::new();
        fs::set_permissions(scratch.path(""), Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(scratch.path("run"), Permissions::from_mode(0o755)).unwrap();
        for name in ["canary", "recording.json", "a", "b"] {
            let path = scratch.write(&format!("secret/{name}"), format!("root's {name}"));
            fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        }
        fs::set_permissions(scratch.path("secret"), Permissions::from_mode(0o700)).unwrap();
        for name in ["a", "b", "deep/a", "deep/b"] {
            scratch.write(&format!("theirs/profile/{name}"), "first");
        }
        let secret = picture(&scratch.path("secret"));
        let scene = Self { scratch, secret };
        scene.give("theirs");
        scene
    }

    /// Puts a copy of a file among root's secrets, under the same name: what is done to that name by a swapped
    /// directory is done to this.
    fn hide(&mut self, file: &Path) {
        let copy = self.scratch.path("secret").join(file.file_name().unwrap());
        fs::copy(file, &copy).unwrap();
        fs::set_permissions(copy, Permissions::from_mode(0o600)).unwrap();
        self.secret = picture(&self.scratch.path("secret"));
    }

    /// Gives what lies there to the second user.
    fn give(&self, name: &str) {
        let status =
            std::process::Command::new("chown").args(["-R", "65534:65534"]).arg(self.scratch.path(name)).status();
        assert!(status.unwrap().success());
    }

    #[track_caller]
    fn is_whole(&self, after: &str) {
        assert_eq!(picture(&self.scratch.path("secret")), self.secret, "after {after}");
    }

    /// The second user puts links to the secrets, further names of them, pipes and directories where these names are,
    /// and swaps the directories above.
    fn rival(&self, names: &[&str], directories: &[&str]) -> Rival {
        let theirs = self.scratch.path("theirs");
        let (canary, secret) = (self.scratch.path("secret/canary"), self.scratch.path("secret"));
        let names: Vec<PathBuf> = names.iter().map(|name| theirs.join(name)).collect();
        let directories: Vec<PathBuf> = directories.iter().map(|name| theirs.join(name)).collect();
        let mut round = 0_usize;
        Rival::new(SECOND_USER, move || {
            round += 1;
            for name in &names {
                let aside = name.with_extension("aside");
                let _ = fs::rename(name, &aside);
                let _ = match round % 5 {
                    0 => std::os::unix::fs::symlink(&canary, name),
                    1 => fs::hard_link(&canary, name),
                    2 => std::os::unix::fs::symlink(&secret, name),
                    3 => fs::create_dir(name),
                    _ => rustix::fs::mknodat(rustix::fs::CWD, name, rustix::fs::FileType::Fifo, 0o666.into(), 0)
                        .map_err(Into::into),
                };
                let _ = fs::remove_file(name);
                let _ = fs::remove_dir(name);
                let _ = fs::rename(&aside, name);
            }
            for directory in &directories {
                let aside = directory.with_extension("aside");
                if fs::rename(directory, &aside).is_ok() {
                    let _ = std::os::unix::fs::symlink(&secret, directory);
                    std::thread::yield_now();
                    let _ = fs::remove_file(directory);
                    let _ = fs::rename(&aside, directory);
                }
            }
            std::thread::yield_now();
        })
    }

    /// Root runs thaw some times beside the rival. What comes out is right or an error of the table, never a bug.
    fn beside(&self, verb: &str, rival: Rival, times: usize, run: impl Fn(&Scratch) -> Said) {
        for _ in 0..times {
            let said = run(&self.scratch);
            let code = said.code();
            assert!(matches!(code, Some(0..=5)), "{verb}\n{}", said.framed());
            self.is_whole(verb);
        }
        assert!(rival.end() > 0, "{verb}: the second user did nothing");
        self.is_whole(verb);
    }
}

/// Runs a test with the kernel's protections off and on.
fn with_and_without(test: impl Fn(Scene)) {
    if !testing::root_or_skip() {
        return;
    }
    let _machine = alone();
    for value in ["0", "1"] {
        let _protected = Protected::at(value);
        test(Scene::new());
    }
}

const HOT: [&str; 9] = ["record", "--state", "hot", "--runs", "2", "--needed", "no", "--engine", "probe"];

#[test]
fn record_restores_a_profile_that_its_user_swaps() {
    with_and_without(|scene| {
        let program = scene.scratch.script("program", "echo more >> theirs/profile/a; echo new > theirs/profile/new");
        let rival = scene.rival(&["profile/a", "profile/deep/b", "profile/new"], &["profile/deep", "profile"]);
        scene.beside("record --restore", rival, 4, |scratch| {
            let words = ["--force", "-o", "out.thaw", "--user", "nobody", "--restore", "theirs/profile", "--"];
            let words = [&HOT[..], &words, &[program.to_str().unwrap()]].concat();
            scratch.thaw(words)
        });
    });
}

#[test]
fn recordings_and_pages_are_written_where_another_user_swaps_names() {
    with_and_without(|scene| {
        scene.scratch.thaw([&HOT[..], &["-o", "good.thaw", "--", "true"]].concat()).exits(0);
        let rival = scene.rival(&["out.html"], &[]);
        scene.beside("report -o", rival, 6, |scratch| scratch.thaw(["report", "good.thaw", "-o", "theirs/out.html"]));
    });
}

#[test]
fn heap_recordings_are_made_where_another_user_swaps_their_directories() {
    if !crate::heap::guest() {
        return;
    }
    with_and_without(|scene| {
        let rival = scene.rival(&["out.heap/recording.json", "out.heap/1-0.stream"], &["out.heap"]);
        scene.beside("heap run", rival, 8, |scratch| {
            scratch.thaw(["heap", "run", "--force", "-o", "theirs/out.heap", "--", "sort", "/etc/passwd"])
        });
        let said = scene.scratch.thaw(["heap", "run", "-o", "theirs/out.heap", "--", "true"]).exits(2);
        said.complains("it belongs to user 65534").hints("-o /tmp");
        // Where all may make files and nobody may touch another one's, it works.
        let sticky = scene.scratch.path("sticky");
        fs::create_dir(&sticky).unwrap();
        fs::set_permissions(&sticky, Permissions::from_mode(0o1777)).unwrap();
        let rival = scene.rival(&["../sticky/out.heap/1-0.stream", "../sticky/out.heap"], &["../sticky/out.heap"]);
        let words = ["heap", "run", "--force", "-o", "sticky/out.heap", "--", "sort", "/etc/passwd"];
        scene.beside("heap run in a sticky directory", rival, 4, |scratch| scratch.thaw(words));
        scene.scratch.thaw(words).exits(0).says("allocations");
    });
}

#[test]
fn elf_files_are_packed_where_another_user_swaps_names() {
    with_and_without(|mut scene| {
        let file = scene.scratch.path("theirs/program");
        testing::copy_program("/bin/sort", &file);
        let rival = scene.rival(&["program", "packed"], &[]);
        scene.beside("elf pack --in-place", rival, 4, |scratch| {
            scratch.thaw(["elf", "pack", "--in-place", "theirs/program"])
        });
        // A directory that is swapped for root's, with the same file in it.
        fs::create_dir(scene.scratch.path("theirs/bin")).unwrap();
        let file = scene.scratch.path("theirs/bin/sort");
        testing::copy_program("/bin/sort", &file);
        scene.give("theirs/bin");
        scene.hide(&file);
        let rival = scene.rival(&[], &["bin"]);
        scene.beside("elf pack --in-place and restore", rival, 12, |scratch| {
            scratch.thaw(["elf", "pack", "--in-place", "theirs/bin/sort"]);
            scratch.thaw(["elf", "restore", "theirs/bin/sort"])
        });
        let rival = scene.rival(&["packed"], &[]);
        scene.beside("elf pack -o", rival, 4, |scratch| {
            scratch.thaw(["elf", "pack", "/bin/sort", "-o", "theirs/packed"])
        });
    });
}

#[test]
fn files_are_evicted_where_another_user_swaps_names() {
    with_and_without(|scene| {
        let rival = scene.rival(&["profile/a", "profile/b"], &["profile/deep"]);
        scene.beside("flush", rival, 4, |scratch| scratch.thaw(["flush", "theirs/profile"]));
    });
}

#[test]
fn files_are_put_together_where_another_user_swaps_names() {
    with_and_without(|mut scene| {
        crate::frag::interleaved(&scene.scratch, "theirs/data");
        scene.hide(&scene.scratch.path("theirs/data/one"));
        scene.give("theirs/data");
        let rival = scene.rival(&["data/one", "data/two"], &["data"]);
        scene.beside("frag --fix", rival, 6, |scratch| scratch.thaw(["frag", "--fix", "theirs/data"]));
    });
}

#[test]
fn results_are_written_where_another_user_swaps_names() {
    with_and_without(|mut scene| {
        let scratch = &scene.scratch;
        let jar = crate::archive::archive(scratch);
        crate::archive::touched(scratch, &jar, &[300, 301, 302, 10, 11, 12]);
        let start = crate::memory::firefox("start.json.gz");
        let mut verbs = vec![
            [&HOT[..], &["--force", "-o", "theirs/out.thaw", "--", "true"]].concat(),
            [&HOT[..], &["--force", "-o", "out.thaw", "--export-json", "theirs/out.thaw", "--", "true"]].concat(),
            vec!["touch", "--force", "--engine", "page", "-o", "theirs/out.thaw", "--", "true"],
            vec!["archive", "reorder", "app.jar", "--from", "app.thaw", "--force", "-o", "theirs/out.thaw"],
            vec!["archive", "pack", "tree", "--force", "-o", "theirs/out.thaw"],
            vec!["memory", "show", &start, "--force", "-o", "theirs/out.thaw"],
        ];
        let source = scratch.write("app.c", "int main(void) { return 0; }");
        let app = scratch.path("app");
        if testing::compiled(std::process::Command::new("cc").args(["-g", "-o"]).arg(&app).arg(&source)) {
            scratch.thaw(["touch", "--engine", "function", "-o", "functions.thaw", "--", "./app"]).exits(0);
            verbs.push(vec!["order", "functions.thaw", "--force", "-o", "theirs/out.thaw"]);
        }
        scene.hide(&jar);
        for words in verbs {
            let rival = scene.rival(&["out.thaw", "out.thaw-wal", "out.thaw-journal"], &[]);
            scene.beside(&words.join(" "), rival, 6, |scratch| scratch.thaw(words.iter().copied()));
            // What the second user put back after thaw had removed it is another database's to thaw, and refused.
            for name in ["out.thaw-wal", "out.thaw-journal", "out.thaw-shm"] {
                let _ = fs::remove_file(scene.scratch.path("theirs").join(name));
            }
            scene.scratch.thaw(words.iter().copied()).exits(0);
            assert!(scene.scratch.path("theirs/out.thaw").symlink_metadata().unwrap().is_file(), "{words:?}");
            fs::remove_file(scene.scratch.path("theirs/out.thaw")).unwrap();
        }
    });
}

#[test]
fn an_optimized_program_is_applied_and_undone_where_another_user_swaps_names() {
    with_and_without(|mut scene| {
        let Some(program) = crate::optimize::program(&scene.scratch) else { return };
        crate::optimize::result(&scene.scratch, &program);
        scene.hide(&program);
        scene.give("system");
        let rival = scene.rival(&["../system/app/big"], &["../system/app"]);
        scene.beside("optimize --apply and --undo", rival, 6, |scratch| {
            let applied = scratch.thaw(["optimize", "--apply", "fast"]);
            let code = applied.code();
            assert!(matches!(code, Some(0..=5)), "{}", applied.framed());
            scratch.thaw(["optimize", "--undo", "fast"])
        });
        // What could not be taken back while the names changed can be now.
        scene.scratch.thaw(["doctor", "--mend"]);
        let said = scene.scratch.thaw(["optimize", "--undo", "fast"]);
        assert!(matches!(said.code(), Some(0 | 2)), "{}", said.framed());
        scene.scratch.thaw(["optimize", "--apply", "fast"]).exits(0);
        scene.scratch.thaw(["optimize", "--undo", "fast"]).exits(0);
    });
}

#[test]
fn what_all_users_start_is_nothing_that_another_user_can_change() {
    if !testing::root_or_skip() {
        return;
    }
    let scene = Scene::new();
    let thaw = scene.scratch.path("theirs/thaw");
    testing::copy_program(env!("CARGO_BIN_EXE_thaw"), &thaw);
    scene.scratch.thaw([&HOT[..], &["-o", "good.thaw", "--", "/bin/true"]].concat()).exits(0);
    fs::write(scene.scratch.path("theirs/x.preload"), "").unwrap();
    let words = ["preload", "install", "--system", "--unit", "thaw-test", "theirs/x.preload"];
    scene.scratch.thaw(words).exits(2).complains("theirs").complains("it belongs to user 65534");
    scene.is_whole("preload install --system");
}

#[test]
fn the_page_is_not_another_users() {
    if !testing::root_or_skip() {
        return;
    }
    use std::io::{BufRead, BufReader, Read, Write};
    let scene = Scene::new();
    scene.scratch.thaw([&HOT[..], &["-o", "good.thaw", "--", "/bin/true"]].concat()).exits(0);
    let mut command = scene.scratch.command();
    command.args(["view", "--no-browser", "good.thaw"]).stderr(std::process::Stdio::piped());
    let mut server = Mortal(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.split_once("http://").unwrap().1.split(' ').next().unwrap();
    let (address, target) = url.split_once('/').unwrap();
    let ask = |target: &str| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        write!(stream, "GET /{target} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().next().unwrap().to_owned()
    };
    let theirs = testing::as_user(SECOND_USER, || {
        let _held: Vec<_> = (0..40).map(|_| std::net::TcpStream::connect(address)).collect();
        ask("")
    });
    assert!(theirs.contains(" 403 "), "{theirs}");
    assert!(ask(target).contains(" 200 "));
}
