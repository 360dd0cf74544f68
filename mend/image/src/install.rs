//! Launchers, services and the unit that mounts an image for all users: what is written for them. How it is written,
//! recorded and taken away again is [`os::installed`]'s.

use crate::about::Origin;
use crate::check::Opened;
use model::{Error, Exit, Result, shown};
use os::installed::places::{Places, Scope, one_line, only_root_changes};
use os::installed::unit::{self, unit_listed, unit_path, unit_word};
use os::installed::{By, Content, Installation, Plan, Subject, check_free};
use std::path::{Path, PathBuf};

/// The drop-in by which a service starts from an image.
const DROP_IN: &str = "50-thaw-image.conf";

/// The name of an image: that of its file, without the ending.
///
/// # Errors
/// It is no name for a unit.
pub fn name_of(image: &Path) -> Result<String> {
    let name = image.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Subject::Image(name.clone()).check()?;
    Ok(name)
}

/// Where the copy of an image lies that is mounted at each boot.
///
/// # Errors
/// A bug.
pub fn copy_of(name: &str) -> Result<PathBuf> {
    Ok(Places::of(Scope::System)?.kept.join("images").join(format!("{name}.img")))
}

/// Keeps a copy of the image, and has it mounted for all users at each boot, by the `thaw` that is named.
/// `is_needed_only`: see [`Installation::is_needed_only`].
///
/// # Errors
/// It is installed already; somebody else than root can change what is mounted or who mounts it; a file cannot be
/// written. Nothing is changed then.
pub fn image(opened: &Opened, thaw: &Path, is_needed_only: bool) -> Result<Installation> {
    let name = name_of(&opened.path)?;
    let subject = Subject::Image(name.clone());
    check_free(By::Image, &subject, Scope::System)?;
    only_root_changes(&opened.path, "copy it to a directory of root's")?;
    let places = Places::of(Scope::System)?;
    places.check(Scope::System, thaw)?;
    let copy = copy_of(&name)?;
    let unit = unit_name(&name);
    let text = unit_text(&opened.about.origin, one_line(thaw)?, one_line(&copy)?, places.target)?;
    let wants = places.units.join(format!("{}.wants", places.target)).join(&unit);
    let files = vec![
        (copy.clone(), Content::Copy(opened.path.clone())),
        (places.units.join(&unit), Content::Text(text)),
        (wants, Content::Link(Path::new("..").join(&unit))),
    ];
    let notes = vec!["systemd knows the unit after: systemctl daemon-reload".to_owned()];
    let (by, scope) = (By::Image, Scope::System);
    os::installed::install(Plan { by, subject, scope, from: Some(copy), is_needed_only, files, notes })
}

/// The unit that mounts an image.
pub fn unit_name(name: &str) -> String {
    format!("thaw-image-{name}.service")
}

/// Lets a launcher or a service start from an image from now on, through the `runner`.
///
/// # Errors
/// There is no such desktop entry or service, or it starts no program; it is installed already; a file cannot be
/// written. Nothing is changed then.
pub fn start(image: &Path, runner: &Path, subject: &Subject, scope: Scope) -> Result<Installation> {
    check_free(By::Image, subject, scope)?;
    let places = Places::of(scope)?;
    places.check(scope, runner)?;
    let before = [one_line(runner)?, one_line(image)?];
    let mut notes = Vec::new();
    let file = match subject {
        Subject::Launcher(name) => {
            let wrapped = places.wrapped(name, &before)?;
            notes.extend(wrapped.note());
            (places.applications.join(name), Content::Text(wrapped.text))
        }
        Subject::Unit(name) => {
            let commands = unit::commands(name, scope, DROP_IN)?;
            let text = unit::wrapped(&commands, &before).map_err(|why| {
                Error::new(Exit::Usage, "cannot start it through another program, the service", name).because(why)
            })?;
            let user = if scope == Scope::User { "--user " } else { "" };
            notes.push(format!(
                "it works from the next start of {name} after: systemctl {user}daemon-reload; after an upgrade that \
                 changes how the service is started, install it again"
            ));
            (places.units.join(format!("{name}.service.d")).join(DROP_IN), Content::Text(text))
        }
        Subject::Image(name) => return Err(Error::bug(format!("the image {name} was to start"))),
    };
    let (by, subject, from) = (By::Image, subject.clone(), Some(image.to_owned()));
    os::installed::install(Plan { by, subject, scope, from, is_needed_only: false, files: vec![file], notes })
}

/// Whether what a launcher or a service starts is another thing than when it was installed; `None`: it is the same, or
/// nobody can tell.
pub fn outdated(installation: &Installation) -> Option<String> {
    let Subject::Unit(name) = &installation.subject else { return None };
    let now = unit::commands(name, installation.scope, DROP_IN);
    let text = installation.text()?;
    match now {
        Err(error) => Some(error.to_string()),
        Ok(commands) => {
            let is_same = commands.iter().all(|command| {
                let program = command.trim_start_matches(|letter| "-:+!|".contains(letter));
                text.lines().any(|line| line.ends_with(&format!(" -- {program}")))
            });
            (!is_same).then(|| "the service starts another command since".to_owned())
        }
    }
}

fn unit_text(origin: &Origin, thaw: &str, image: &str, target: &str) -> Result<String> {
    let directory = one_line(Path::new(&origin.directory))?;
    let places = origin.places().map(|place| Ok(unit_listed(one_line(place)?))).collect::<Result<Vec<_>>>()?;
    let (thaw, word) = (unit_word(thaw), unit_word(image));
    Ok(format!(
        "[Unit]\n\
         Description=Mount the image of {} in the order of its start\n\
         ConditionPathExists={}\n\
         RequiresMountsFor={} {}\n\
         \n\
         [Service]\n\
         Type=oneshot\n\
         RemainAfterExit=yes\n\
         Nice=19\n\
         ExecStart={thaw} image mount --remake {word}\n\
         ExecStop={thaw} image unmount {word}\n\
         \n\
         [Install]\n\
         WantedBy={target}\n",
        unit_path(directory),
        unit_path(image),
        unit_listed(image),
        places.join(" "),
    ))
}

/// What is said of a program that cannot have the image: it is not mounted for all.
pub fn not_mounted(image: &Path) -> Error {
    Error::on(Exit::Machine, "only root can mount the image, and it is not mounted for all users:", image).hint(format!(
        "sudo thaw image run {0} -- PROGRAM (it runs as you), or for all users: sudo thaw image install {0} --system",
        shown(image)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_names_any_path() {
        let origin = |directory: &str| Origin {
            directory: directory.to_owned(),
            trees: vec!["/usr/share/x".to_owned()],
            recordings: Vec::new(),
            source: String::new(),
            starts: 1,
            replaced: Vec::new(),
        };
        let of = origin("/usr/lib/a b%");
        let text = unit_text(&of, "/usr/bin/thaw", "/var/lib/50%.img", "multi-user.target").unwrap();
        assert!(text.contains("ExecStart=\"/usr/bin/thaw\" image mount --remake \"/var/lib/50%%.img\"\n"), "{text}");
        assert!(
            text.contains("RequiresMountsFor=\"/var/lib/50%%.img\" \"/usr/lib/a b%%\" \"/usr/share/x\"\n"),
            "{text}"
        );
        assert!(unit_text(&origin("/a\nb"), "/t", "/i", "x").is_err());
    }

    #[test]
    fn an_image_is_named_as_its_file() {
        assert_eq!(name_of(Path::new("/a/firefox-esr.img")).unwrap(), "firefox-esr");
        assert!(name_of(Path::new("/a/b c.img")).is_err() && name_of(Path::new("/")).is_err());
    }
}
