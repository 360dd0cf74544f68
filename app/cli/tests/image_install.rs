//! image install, mount, status: launchers and services that start from an image, for ordinary users too; that nothing
//! stays when it is taken away, when a verb is killed, when the disk is full, when the directory or the image changes.
//!
//! What is installed for all users goes into a mount namespace of the test's own, in which `/etc`, `/run`, `/usr/local`
//! and `/var/lib` are directories of the test.

use crate::made;
use crate::scratch::{Mortal, Said, Scratch};
use model::{Bytes, FileId, FileOffset};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A machine on which the test is root, with a user beside it.
struct House {
    scratch: Scratch,
    holder: Mortal,
}

const ENTRY: &str = "[Desktop Entry]\nType=Application\nName=Tool\nExec=/opt/app/cat %f\n";
const SERVICE: &str = "[Service]\nType=oneshot\nExecStart=-/opt/app/cat \\\n  /proc/self/mountinfo\n";
/// The image as it is kept when it is installed for all users.
const KEPT: &str = "/var/lib/thaw/images/app.img";

impl House {
    /// With a program in `/opt/app` and its image `/opt/app.img`; `None`: counted as skipped.
    fn new() -> Option<Self> {
        if !testing::root_or_skip() {
            return None;
        }
        if !std::fs::read_to_string("/proc/filesystems").unwrap_or_default().contains("\terofs\n") {
            testing::skip("needs a kernel with EROFS");
            return None;
        }
        let scratch = Scratch::new();
        for folder in ["etc/system", "run", "local/bin", "local/share/applications", "lib", "opt/app/lib", "home"] {
            std::fs::create_dir_all(scratch.path("house").join(folder)).unwrap();
        }
        std::os::unix::fs::chown(scratch.path("house/home"), Some(65534), Some(65534)).unwrap();
        let lines: String = (0..30_000).map(|line| format!("line {line} of what the program reads\n")).collect();
        let data = scratch.write("house/opt/app/data", lines);
        scratch.write("house/opt/app/lib/unused", vec![b'x'; 200_000]);
        testing::copy_program("/bin/cat", scratch.path("house/opt/app/cat"));
        scratch.write("house/opt/share/applications/tool.desktop", ENTRY);
        scratch.write("house/etc/system/tool.service", SERVICE);
        let mut trace = made::trace_of(2);
        trace.files[0].size = Bytes(std::fs::metadata(&data).unwrap().len());
        trace.files[0].path = "/opt/app/data".into();
        made::with_trace(&scratch.path("house/opt/a.thaw"), &[900], &[300], Some(&trace));
        let script = "set -e; h=$0; mount --bind $h/etc /etc/systemd; mount --bind $h/run /run; \
             mount --bind $h/local /usr/local; mount --bind $h/lib /var/lib; mount --bind $h/opt /opt; \
             mount --bind $h/home /mnt; touch /usr/local/bin/thaw /usr/local/bin/thaw-image; \
             mount --bind $1 /usr/local/bin/thaw; mount --bind $2 /usr/local/bin/thaw-image; echo; exec sleep 10000";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", script]).arg(scratch.path("house"));
        command.args([env!("CARGO_BIN_EXE_thaw"), env!("CARGO_BIN_EXE_thaw-image")]);
        let mut holder = Mortal(command.stdout(Stdio::piped()).spawn().unwrap());
        let ready = holder.0.stdout.as_mut().unwrap().read_exact(&mut [0]);
        if ready.is_err() {
            testing::skip("needs mount namespaces");
            return None;
        }
        let house = Self { scratch, holder };
        house.root("thaw image make app --from a.thaw -o app.img").exits(0);
        Some(house)
    }

    /// A shell's line in that machine, in /opt.
    fn command(&self, before: &[&str], line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.holder.0.id())).arg("--");
        command
            .args(before)
            .args(["sh", "-c", &format!("cd /opt && exec {line}")])
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        for name in ["THAW_STATE_DIR", "THAW_MACHINE_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "SUDO_UID"] {
            command.env_remove(name);
        }
        command.env("XDG_DATA_DIRS", "/opt/share").stdin(Stdio::null());
        command
    }

    fn root(&self, line: &str) -> Said {
        Said::of(self.command(&[], line))
    }

    /// As an ordinary user, whose home is /mnt.
    fn user(&self, line: &str) -> Said {
        let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];
        let mut command = self.command(&user, line);
        command.env("HOME", "/mnt");
        Said::of(command)
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.scratch.path("house").join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_else(|cause| panic!("{name}: {cause}"))
    }

    /// Images that are mounted for all.
    fn mounted(&self) -> usize {
        self.root("cat /proc/self/mountinfo").out().lines().filter(|line| line.contains(" - erofs ")).count()
    }

    /// Nothing that thaw installed, mounted, or must undo is there.
    #[track_caller]
    fn is_empty(&self) {
        assert_eq!(self.mounted(), 0);
        let mut left = Vec::new();
        let mut open = ["etc", "local/share", "lib", "run", "home", "opt"].map(|name| self.path(name)).to_vec();
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                match entry.is_dir() && !entry.is_symlink() {
                    true => open.push(entry),
                    false => left.push(entry),
                }
            }
        }
        let known =
            ["tool.service", "tool.desktop", "a.thaw", "app.img", "cat", "data", "unused", "systemd-units-load"];
        left.retain(|path| !known.iter().any(|known| path.ends_with(known)));
        assert!(left.is_empty(), "{left:?}");
        assert!(!self.has_loop_device(), "a loop device is left");
    }

    fn has_loop_device(&self) -> bool {
        let devices = std::fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().path());
        let mut files = devices.filter_map(|path| std::fs::read_to_string(path.join("loop/backing_file")).ok());
        let own = self.scratch.path("").display().to_string();
        files.any(|file| file.starts_with(&own) || file.contains("app.img"))
    }
}

#[test]
fn what_launchers_call_is_small() {
    let size = |program| std::fs::metadata(program).unwrap().len();
    let (small, thaw) = (size(env!("CARGO_BIN_EXE_thaw-image")), size(env!("CARGO_BIN_EXE_thaw")));
    assert!(small < thaw / 10, "a cold disk brings {small} bytes, of {thaw} of thaw: what is linked in?");
}

/// The value of a setting of a unit, the last one.
fn setting<'t>(unit: &'t str, name: &str) -> &'t str {
    let found = unit.lines().rev().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {name} in {unit}"))
}

/// Whether a program that prints its mounts saw an image over its directory.
fn from_image(said: &Said) -> bool {
    said.out().lines().any(|line| line.contains(" /opt/app ") && line.contains(" - erofs "))
}

#[test]
fn ordinary_users_start_from_an_image_that_is_installed_for_all() {
    let Some(house) = House::new() else { return };
    let said = house.root("thaw image install app.img --desktop tool.desktop --system").exits(0);
    said.says("mounted now at /run/thaw/images/app").says("thaw image uninstall --desktop tool.desktop --system");
    let entry = house.text("local/share/applications/tool.desktop");
    assert!(entry.contains(&format!("Exec=/usr/local/bin/thaw-image {KEPT} -- /opt/app/cat %f\n")), "{entry}");
    assert_eq!(house.mounted(), 1);

    let run = |line: &str| house.user(&format!("thaw-image {KEPT} -- {line}"));
    let said = run("/opt/app/cat /proc/self/mountinfo");
    if said.err().contains("namespaces of users") {
        return testing::skip("the kernel gives ordinary users no namespaces");
    }
    assert!(from_image(&said) && said.err().is_empty(), "{}", said.framed());
    assert!(run("/opt/app/cat /opt/app/data").exits(0).out().as_bytes() == house.text("opt/app/data").as_bytes());
    assert_eq!(run("id -u").out(), "65534\n");
    assert_eq!(run("sh -c 'exit 42'").code(), Some(42));
    run("no-such-program").exits(127).complains("No such file");
    run("sh -c '>/opt/app/new'");
    assert!(!house.path("opt/app/new").exists());
    // `thaw image run` does the same, and knows what the small program does not.
    let said = house.user(&format!("thaw image run --check {KEPT} -- cat /proc/self/mountinfo")).exits(0);
    assert!(from_image(&said), "{}", said.framed());
    assert!(from_image(&house.user(&format!("thaw-image --check {KEPT} -- cat /proc/self/mountinfo"))));
    // Root mounts it for the program alone, from the file.
    assert!(from_image(&house.root(&format!("thaw-image {KEPT} -- cat /proc/self/mountinfo")).exits(0)));
    let around = house.root("sh -c 'cat /sys/class/bdi/erofs*/read_ahead_kb'").out();
    assert!(around.lines().any(|line| line == "0"), "{around}");
    house.user("thaw image status").exits(0).says("/opt/app").says("mounted for all users");
    let json = house.root("thaw image status --json").exits(0).json();
    assert_eq!(json["schema"], "thaw.image-status/1");
    assert_eq!(json["images"][0]["problem"], serde_json::Value::Null, "{json:#}");
    assert_eq!(json["images"][0]["installed"].as_array().unwrap().len(), 2);
    house.root("thaw doctor").says("undo: thaw image uninstall --desktop tool.desktop --system");
    // Somebody's own launcher, of the same content in another file.
    house.user("thaw image install app.img --desktop tool.desktop").exits(0);
    let own = house.text("home/.local/share/applications/tool.desktop");
    assert!(own.contains(&format!("thaw-image {KEPT} -- ")), "{own}");
    house.user("thaw image install app.img --desktop tool.desktop").exits(2).complains("installed already");
    house.user("thaw image uninstall --desktop tool.desktop").exits(0);
    // What one installs, the other must not change.
    house.root("thaw image install app.img --desktop tool.desktop --system").exits(2).complains("installed already");
    house.root("thaw image uninstall --image app --system").exits(2).complains("something starts from this image");
    house.root("thaw image uninstall --desktop tool.desktop --system").exits(0).says(KEPT);
    house.root("thaw image uninstall --desktop tool.desktop --system").exits(2).complains("has not installed");
    house.is_empty();
}

/// An image that also holds what starts need of another directory is laid over both.
#[test]
fn a_set_of_directories_is_covered_for_root_and_for_ordinary_users() {
    let Some(house) = House::new() else { return };
    for (name, lines) in [("needed", 5000), ("other", 10)] {
        let text: String = (0..lines).map(|line| format!("line {line} of {name}\n")).collect();
        house.scratch.write(&format!("house/opt/fonts/{name}"), text);
    }
    let size = |name: &str| Bytes(std::fs::metadata(house.path(name)).unwrap().len());
    let mut trace = made::trace_of(2);
    for (file, path) in trace.files.iter_mut().zip(["opt/app/data", "opt/fonts/needed"]) {
        (file.size, file.path) = (size(path), Path::new("/").join(path));
    }
    trace.fills.iter_mut().skip(2).for_each(|fill| (fill.file, fill.offset) = (FileId(1), FileOffset(0)));
    made::with_trace(&house.path("opt/set.thaw"), &[900], &[300], Some(&trace));
    let make = "thaw image make app --from set.thaw -o";
    house.root(&format!("{make} no.img --tree app/lib")).exits(2).complains("in the image anyway");
    house.root(&format!("{make} fonts/no.img --tree fonts")).exits(2).complains("its own directory");
    house.root("thaw image make app --tree fonts --like app.img -o no.img").exits(2).complains("cannot be used with");
    let said = house.root(&format!("{make} set.img --tree fonts")).exits(0);
    said.says("/opt/app, and what starts need of /opt/fonts: 4 files").says_not("warning");
    house
        .root("thaw image verify set.img")
        .exits(0)
        .says("It holds what /opt/app holds, and what starts need of /opt/");
    let again = house.root(&format!("{make} again.img --tree fonts")).exits(0);
    assert!(std::fs::read(house.path("opt/set.img")).unwrap() == std::fs::read(house.path("opt/again.img")).unwrap());
    drop(again);

    let texts = ["opt/app/data", "opt/fonts/needed", "opt/fonts/other"].map(|name| house.text(name)).concat();
    let all = "cat /opt/app/data /opt/fonts/needed /opt/fonts/other";
    let is_covered = |said: &Said| {
        let laid = |line: &&str| line.contains(" /opt/fonts ") && line.contains(" - overlay ");
        from_image(said) && said.out().lines().filter(laid).count() == 1
    };
    let check = |said: Said| assert!(is_covered(&said) && said.err().is_empty(), "{}", said.framed());
    check(house.root("thaw-image set.img -- cat /proc/self/mountinfo").exits(0));
    assert!(house.root(&format!("thaw-image set.img -- {all}")).exits(0).out() == texts);
    // Where the program is, is covered too.
    assert!(
        house.root("sh -c 'cd fonts && thaw-image ../set.img -- cat needed'").out() == house.text("opt/fonts/needed")
    );
    house.root("thaw image install set.img --system").exits(0).says("mounted now");
    let unit = house.text("etc/system/thaw-image-set.service");
    assert!(setting(&unit, "RequiresMountsFor").ends_with(r#" "/opt/app" "/opt/fonts""#), "{unit}");
    let kept = "/var/lib/thaw/images/set.img";
    let user = |line: &str| house.user(&format!("thaw-image {kept} -- {line}"));
    let said = user("cat /proc/self/mountinfo");
    let has_namespaces = !said.err().contains("namespaces of users");
    if has_namespaces {
        check(said);
        assert!(user(all).exits(0).out() == texts);
    } else {
        testing::skip("the kernel gives ordinary users no namespaces");
    }
    // A manifest besides: what the image has is read of it, the rest from where it lies.
    house.root("thaw preload make set.thaw -o set.preload").exits(0);
    assert!(house.root(&format!("thaw-image set.img --preload set.preload -- {all}")).exits(0).out() == texts);
    // Another name in a directory that the program sees.
    house.scratch.write("house/opt/fonts/new", "");
    for said in [user(all), house.root(&format!("thaw-image set.img -- {all}"))] {
        let said = said.exits(0).complains("starts from its directory").complains("fonts");
        assert!(said.out() == texts, "{}", said.framed());
    }
    house.root("thaw image status").exits(1).says("not used");
    house.root(&format!("thaw image mount --remake {kept}")).exits(0);
    if has_namespaces {
        check(user("cat /proc/self/mountinfo").exits(0));
    }
    house.root("thaw image uninstall --image set --system").exits(0);
    for name in ["fonts/needed", "fonts/other", "fonts/new", "set.thaw", "set.img", "again.img", "set.preload"] {
        std::fs::remove_file(house.path("opt").join(name)).unwrap();
    }
    house.is_empty();
}

#[test]
fn a_service_starts_from_an_image_and_its_unit_mounts_it() {
    let Some(house) = House::new() else { return };
    house.root("thaw image install app.img --system").exits(0).says("thaw image uninstall --image app --system");
    house.root("thaw image install app.img --unit tool --system").exits(0).says("daemon-reload");
    house.root("thaw image install app.img --unit other --system").exits(2).complains("there is no service 'other'");
    let drop_in = house.text("etc/system/tool.service.d/50-thaw-image.conf");
    let command = setting(&drop_in, "ExecStart").strip_prefix('-').unwrap().to_owned();
    assert!(command.ends_with(" -- /opt/app/cat    /proc/self/mountinfo"), "{drop_in}");
    assert!(drop_in.contains("ExecStart=\n"), "{drop_in}");
    for user in [true, false] {
        let said = if user { house.user(&command) } else { house.root(&command) };
        if said.err().contains("namespaces of users") {
            testing::skip("the kernel gives ordinary users no namespaces");
            continue;
        }
        assert!(from_image(&said) && said.err().is_empty(), "{}", said.framed());
    }
    let unit = house.text("etc/system/thaw-image-app.service");
    let link = house.path("etc/system/multi-user.target.wants/thaw-image-app.service");
    assert_eq!(std::fs::read_link(link).unwrap(), Path::new("../thaw-image-app.service"));
    if Path::new("/usr/bin/systemd-analyze").exists() {
        let said = house.root("systemd-analyze verify /etc/systemd/system/thaw-image-app.service");
        assert!(!said.err().contains("thaw-image-app"), "{}", said.framed());
    }
    let (mount, unmount) = (setting(&unit, "ExecStart").to_owned(), setting(&unit, "ExecStop").to_owned());
    // Once more is no harm: the unit starts after the image was mounted by install.
    house.root(&mount).exits(0);
    assert_eq!(house.mounted(), 1);
    // Root's programs share what is unpacked with all others, those that root starts as another user do not.
    let device = |line: &str| house.root(&format!("{line} stat -c %d /opt/app/data")).exits(0).out();
    let shared = house.root("stat -c %d /run/thaw/images/app/data").exits(0).out();
    assert_eq!(device(&format!("thaw-image {KEPT} --")), shared);
    assert_ne!(device(&format!("thaw-image {KEPT} --as 65534 --")), shared);
    house.root(&unmount).exits(0);
    assert_eq!(house.mounted(), 0);
    let said = house.user(&command).exits(0).complains("starts from its directory").complains("not mounted");
    assert!(!from_image(&said));
    house.root("thaw image status").exits(1).says("not used").says("it is not mounted for all users");
    house.root(&unmount).exits(2).complains("not mounted");
    house.root(&mount).exits(0);
    house.root("thaw image status").exits(0);

    // The command of the service is another one after an upgrade, and so is the directory.
    std::fs::write(house.path("etc/system/tool.service"), SERVICE.replace("/proc", "-n /proc")).unwrap();
    house.root("thaw image status").exits(1).says("starts another command since");
    std::fs::write(house.path("etc/system/tool.service"), SERVICE).unwrap();
    std::fs::write(house.path("opt/app/lib/new"), "of an upgrade").unwrap();
    let said = house.user(&command).exits(0).complains("starts from its directory").complains("lib/new is new");
    assert!(!from_image(&said));
    house.user("thaw image status").exits(1).says("lib/new is new");
    house.root(&unmount).exits(0);
    house.root(&mount.replace(" --remake", "")).exits(5).complains("lib/new is new");
    assert_eq!(house.mounted(), 0);
    // The unit makes it anew, in the order of the old one, also where the program's file is another one now.
    let data = house.text("opt/app/data");
    std::fs::write(house.path("opt/app/data"), format!("{data}{data}")).unwrap();
    house.root(&mount).exits(0);
    house.root("thaw image status").exits(0);
    assert!(from_image(&house.user(&command).exits(0)));
    house.root(&format!("thaw image stat {KEPT}")).exits(0).says("by an older image: a guess where files have other");
    house.root(&format!("thaw image verify {KEPT}")).exits(0);
    // Again, while it is mounted; who may not change the image makes none.
    std::fs::write(house.path("opt/app/data"), data).unwrap();
    std::fs::remove_file(house.path("opt/app/lib/new")).unwrap();
    house.user(&mount).exits(3);
    house.root("thaw image status").exits(1);
    house.root(&mount).exits(0);
    house.root("thaw image status").exits(0);
    assert_eq!(house.mounted(), 1);
    // An image that was installed by itself stays until it is taken away by itself.
    house.root("thaw image uninstall --unit tool --system").exits(0).says_not(KEPT);
    house.root("thaw image uninstall --image app --system").exits(0).says(KEPT);
    house.is_empty();
}

#[test]
fn what_is_wrong_is_refused_in_words_and_nothing_is_left() {
    let Some(house) = House::new() else { return };
    let bytes = std::fs::read(house.path("opt/app.img")).unwrap();
    let stat = house.root("thaw image stat app.img --json").exits(0).json();
    let metadata = stat["about"]["metadata"].as_u64().unwrap() as usize;
    let put = |bytes: &[u8]| std::fs::write(house.path("opt/bad.img"), bytes).unwrap();
    let changed = |at: usize| {
        let mut changed = bytes.clone();
        changed[at] ^= 4;
        changed
    };
    let (in_front, in_data) = (changed(metadata / 2), changed(metadata + 5000));
    for (bytes, why) in [(&bytes[..bytes.len() - 1], "cut off"), (&in_front, "metadata were changed")] {
        put(bytes);
        house.root("thaw image mount bad.img").exits(5).complains(why);
        house.root("thaw image install bad.img --system").exits(5).complains(why);
        house.root("thaw-image bad.img -- echo started").exits(0).says("started").complains(why);
    }
    put(&in_data);
    house.root("thaw image install bad.img --system").exits(5).complains("data were changed");
    put(&bytes);
    std::os::unix::fs::chown(house.path("opt/bad.img"), Some(65534), None).unwrap();
    house.root("thaw image mount bad.img").exits(2).complains("it belongs to user 65534");
    house.root("thaw image install bad.img --system").exits(2).complains("it belongs to user 65534");
    std::fs::remove_file(house.path("opt/bad.img")).unwrap();
    house.root("thaw image mount missing.img").exits(2).complains("missing.img");
    house.root("thaw image unmount app.img").exits(2).complains("not mounted");
    house.root("thaw image install app.img").exits(2).hints("--desktop");
    house.root("thaw image install app.img --desktop no.desktop --system").exits(2).complains("no desktop entry");
    house.user("thaw image install app.img --desktop tool.desktop").exits(3).hints("--system");
    house.user("thaw image install app.img --system").exits(3).hints("sudo");
    house.user("thaw image mount app.img").exits(3);
    house.user("thaw image status").exits(0).says("No image");
    house.is_empty();

    // What not everybody reaches is not opened to everybody by its image.
    let closed = |mode| std::fs::set_permissions(house.path("opt"), std::os::unix::fs::PermissionsExt::from_mode(mode));
    closed(0o700).unwrap();
    house.root("thaw image mount app.img").exits(2).complains("/opt is closed to others");
    house.root("thaw image install app.img --system").exits(2).complains("/opt is closed to others");
    house.root("thaw image make app --from a.thaw -o private.img").exits(0);
    let mode = std::fs::metadata(house.path("opt/private.img")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&mode) & 0o777, 0o600);
    std::fs::remove_file(house.path("opt/private.img")).unwrap();
    closed(0o755).unwrap();

    // Another image of the same name.
    house.root("thaw image mount app.img").exits(0);
    house.root("mkdir other").exits(0);
    house.root("cp app.img other/app.img").exits(0);
    house.root("thaw image mount other/app.img").exits(2).complains("another image of this name").hints("unmount");
    // The file is another one under the mount: nobody reads ahead from it.
    house.root("cp app.img fresh.img").exits(0);
    house.root("mv fresh.img app.img").exits(0);
    house.user("thaw-image app.img -- echo started").exits(0).says("started").complains("changed since it was mounted");
    house.root("thaw image unmount app.img").exits(0);
    house.root("rm -r other").exits(0);
    house.is_empty();
}

#[test]
fn a_full_disk_leaves_nothing() {
    let Some(house) = House::new() else { return };
    // Room for records and units, and not for the image.
    let (mount, fill) = ("mount -t tmpfs -o size=64k thaw /var/lib", "mount -t tmpfs -o size=200k thaw /mnt");
    house.root(mount).exits(0);
    let said = house.root("thaw image install app.img --desktop tool.desktop --system").exits(3);
    said.complains("No space left");
    let left = house.root("find /var/lib -type f").out();
    assert_eq!(left, "", "records, entries or files are left");
    house.root("umount /var/lib").exits(0);
    house.is_empty();
    house.root(fill).exits(0);
    house.root("thaw image make app --from a.thaw -o /mnt/a.img --compression lz4").exits(3).complains("No space left");
    house.root("thaw image extract app.img -o /mnt/app").exits(3).complains("No space left");
    assert_eq!(house.root("find /mnt -mindepth 1").out(), "");
    house.root("umount /mnt").exits(0);
    house.is_empty();
}

#[test]
fn whatever_is_killed_whenever_the_program_starts_and_the_doctor_mends() {
    let Some(house) = House::new() else { return };
    let verbs = [
        "thaw image make app --from a.thaw -o new.img",
        "thaw image verify app.img",
        "thaw image extract app.img -o again",
        "thaw-image app.img -- sleep 0.05",
        "thaw image install app.img --desktop tool.desktop --system",
        "thaw image uninstall --desktop tool.desktop --system",
        "thaw image mount app.img",
        "thaw image unmount app.img",
        "thaw image install app.img --unit tool --system",
        "thaw image status",
        // It may leave the image of the directory as it was: no other verb comes after it.
        "thaw image mount --remake app.img",
    ];
    let mut seed = 88_172_645_463_325_252_u64;
    let mut dice = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let before = |line: &str| {
        if line.contains("uninstall") {
            house.root("thaw image install app.img --desktop tool.desktop --system").exits(0);
        }
        if line.contains("unmount") {
            house.root("thaw image mount app.img").exits(0);
        }
        if line.contains("remake") {
            std::fs::write(house.path("opt/app/lib/unused"), [b'x'; 200_000]).unwrap();
        }
    };
    let after = || {
        house.root("thaw doctor --mend");
        // What was done before the kill is done; it can be taken away as ever.
        let is_there = |name: &str| house.path(name).symlink_metadata().is_ok();
        for (sign, line) in [
            ("local/share/applications/tool.desktop", "thaw image uninstall --desktop tool.desktop --system"),
            ("etc/system/tool.service.d", "thaw image uninstall --unit tool --system"),
            ("etc/system/thaw-image-app.service", "thaw image uninstall --image app --system"),
            ("run/thaw/images/app.json", "thaw image unmount app.img"),
        ] {
            if is_there(sign) {
                house.root(line).exits(0);
            }
        }
        let _ = std::fs::remove_file(house.path("opt/new.img"));
        let _ = std::fs::remove_dir_all(house.path("opt/again"));
    };
    for line in verbs {
        before(line);
        let begun = Instant::now();
        house.root(line).exits(0);
        let whole = begun.elapsed();
        after();
        for _ in 0..5 {
            before(line);
            let mut child = Mortal(house.command(&[], line).stdout(Stdio::null()).spawn().unwrap());
            std::thread::sleep(Duration::from_nanos(dice() % whole.as_nanos() as u64));
            child.0.kill().unwrap();
            child.0.wait().unwrap();
            // Whatever is half there, the program starts.
            house.root("thaw-image app.img -- /opt/app/cat /opt/app/lib/unused").exits(0);
            after();
            house.is_empty();
        }
    }
}
