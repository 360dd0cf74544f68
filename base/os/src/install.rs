//! Where programs are installed: which directory holds a program's files and nobody else's. Pure: paths only.

use std::path::{Path, PathBuf};

/// Directories in which programs of many packages live side by side.
const SHARED: [&str; 33] = [
    "/",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/libexec",
    "/usr/games",
    "/opt",
    "/snap/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/mnt",
    "/proc",
    "/run",
    "/srv",
    "/sys",
    "/usr/include",
    "/usr/lib/jvm",
    "/usr/share",
    "/usr/share/java",
    "/usr/src",
    "/var",
    "/var/cache",
    "/var/lib",
];

/// Below a home directory (the first is that itself): programs of many origins.
const SHARED_IN_HOME: [&str; 5] = ["", "bin", ".local", ".local/bin", ".cargo/bin"];

/// Whether a directory of the system holds files of many programs.
pub fn is_shared(directory: &Path) -> bool {
    let local = Path::new("/usr/local");
    // The loader and helpers of libraries lie in /usr/lib/x86_64-linux-gnu.
    let multiarch = || {
        let triple = directory.file_name().is_some_and(|name| name.to_string_lossy().contains("-linux-"));
        triple && directory.parent().is_some_and(|above| above.ends_with("lib") || above.ends_with("libexec"))
    };
    SHARED.iter().any(|shared| directory == Path::new(shared))
        || directory == local
        || directory.parent() == Some(local)
        || multiarch()
}

/// Where a program was installed: its directory, or the one above for `/opt/x/bin/x`. `None` for one that others share.
pub fn directory_of(executable: &Path) -> Option<PathBuf> {
    let directory = executable.parent().filter(|directory| !is_everybodys(directory))?;
    let inner = ["bin", "sbin", "lib", "lib64", "libexec"].iter().any(|name| directory.ends_with(name));
    match directory.parent().filter(|_| inner) {
        Some(above) if is_in_home(above) => None,
        Some(above) if !is_everybodys(above) => Some(above.to_owned()),
        _ => Some(directory.to_owned()),
    }
}

fn is_everybodys(directory: &Path) -> bool {
    is_shared(directory) || is_in_home(directory) || ["/tmp", "/var/tmp"].iter().any(|it| directory == Path::new(it))
}

/// A home directory, or one below it in which programs of many origins live.
fn is_in_home(directory: &Path) -> bool {
    let is_home = |path: &Path| path == Path::new("/root") || path.parent() == Some(Path::new("/home"));
    let home = directory.ancestors().find(|above| is_home(above));
    home.is_some_and(|home| SHARED_IN_HOME.iter().any(|inside| directory == home.join(inside)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(executable: &str) -> Option<String> {
        directory_of(Path::new(executable)).map(|path| model::shown(&path))
    }

    #[test]
    fn a_program_with_a_directory_of_its_own() {
        for (executable, expected) in [
            ("/usr/lib/firefox-esr/firefox-esr", "/usr/lib/firefox-esr"),
            ("/opt/tool/bin/tool", "/opt/tool"),
            ("/home/u/build/target/release/app", "/home/u/build/target/release"),
            ("/usr/lib/x86_64-linux-gnu/webkit/process", "/usr/lib/x86_64-linux-gnu/webkit"),
            ("/root/tool/bin/tool", "/root/tool"),
        ] {
            assert_eq!(directory(executable).as_deref(), Some(expected));
        }
    }

    #[test]
    fn directories_of_everybody_belong_to_nobody() {
        for path in [
            "/usr/bin/git",
            "/bin/sh",
            "/usr/local/bin/thing",
            "/usr/lib/x86_64-linux-gnu/ld-linux.so.2",
            "/home/u/bin/x",
            "/home/u/x",
            "/home/u/.local/bin/x",
            "/home/u/.cargo/bin/x",
            "/root/lib/x",
            "/tmp/a.out",
            "/x",
        ] {
            assert_eq!(directory(path), None, "{path}");
        }
    }
}
