//! Services of systemd: what they start, and a drop-in by which they start it through another program.
//!
//! Source: systemd.unit(5), "Unit File Load Path"; systemd.service(5), "Command lines"; systemd.syntax(7).

use super::places::Scope;
use crate::file::{of_user, of_variable};
use model::{Error, Exit, Result, shown};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the units of a scope are, the first one wins.
fn load_path(scope: Scope) -> Vec<PathBuf> {
    // As systemd itself takes it.
    if let Some(chosen) = of_variable("SYSTEMD_UNIT_PATH") {
        return std::env::split_paths(&chosen).filter(|path| path.is_absolute()).collect();
    }
    let all = |kind: &str| {
        ["/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/usr/lib/systemd", "/lib/systemd"]
            .map(|above| Path::new(above).join(kind))
    };
    if scope == Scope::System {
        return all("system").into();
    }
    let own = [of_user("XDG_CONFIG_HOME", ".config"), of_user("XDG_DATA_HOME", ".local/share")];
    own.into_iter().flatten().map(|home| home.join("systemd/user")).chain(all("user")).collect()
}

/// The commands that a service starts now, each as its unit and its drop-ins have it; the drop-in of this name is left
/// out.
///
/// # Errors
/// There is no such service, or it cannot be read; it starts nothing.
pub fn commands(name: &str, scope: Scope, but: &str) -> Result<Vec<String>> {
    let file = format!("{name}.service");
    let path = load_path(scope);
    let unit = path.iter().map(|directory| directory.join(&file)).find(|unit| unit.is_file()).ok_or_else(|| {
        let looked = path.iter().map(|path| shown(path)).collect::<Vec<_>>().join(", ");
        Error::new(Exit::Usage, "there is no service", name).hint(format!("looked for {file} in {looked}"))
    })?;
    // Of drop-ins of one name the first directory's counts; they are read in the order of their names.
    let mut drop_ins: Vec<PathBuf> = Vec::new();
    for directory in path.iter().map(|directory| directory.join(format!("{file}.d"))) {
        let entries = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
        for entry in entries.filter(|entry| entry.extension().is_some_and(|ending| ending == "conf")) {
            if !drop_ins.iter().any(|known| known.file_name() == entry.file_name()) {
                drop_ins.push(entry);
            }
        }
    }
    drop_ins.retain(|path| path.file_name().is_some_and(|own| own != but));
    drop_ins.sort_by(|one, other| one.file_name().cmp(&other.file_name()));
    let mut commands = Vec::new();
    for part in [unit].iter().chain(&drop_ins) {
        let text = fs::read_to_string(part)
            .map_err(|cause| Error::on(Exit::Machine, "cannot read the unit", part).because(cause))?;
        add_commands(&text, &mut commands);
    }
    match commands.is_empty() {
        true => Err(Error::new(Exit::Usage, "this service starts no program:", name)),
        false => Ok(commands),
    }
}

/// What one file adds to the commands; an empty one takes all before it away.
fn add_commands(text: &str, commands: &mut Vec<String>) {
    // A line that ends with a backslash goes on, behind comments too.
    let mut whole = String::new();
    let mut is_service = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with(['#', ';']) || whole.is_empty() && trimmed.is_empty() {
            continue;
        }
        if let Some(begun) = line.strip_suffix('\\') {
            whole.push_str(begun);
            whole.push(' ');
            continue;
        }
        whole.push_str(line);
        let line = std::mem::take(&mut whole);
        let line = line.trim();
        if line.starts_with('[') {
            is_service = line == "[Service]";
        } else if is_service && let Some((key, value)) = line.split_once('=') {
            match (key.trim(), value.trim()) {
                ("ExecStart", "") => commands.clear(),
                ("ExecStart", value) => commands.push(value.to_owned()),
                _ => {}
            }
        }
    }
}

/// A drop-in by which a service starts its commands through another program: these words, and `--`, before each.
///
/// # Errors
/// In words: a command cannot be started through another program.
pub fn wrapped(commands: &[String], before: &[&str]) -> std::result::Result<String, String> {
    let words = before.iter().map(|word| unit_word(word)).collect::<Vec<_>>().join(" ");
    let mut text = String::from("[Service]\nExecStart=\n");
    for command in commands {
        // What stands before the path says how it is started, and stays in front.
        let at = command.find(|letter: char| !"@-:+!|".contains(letter)).unwrap_or(command.len());
        let (how, program) = command.split_at(at);
        if how.contains('@') {
            return Err(format!("'{command}' gives the program another name (@)"));
        }
        if program.is_empty() {
            return Err(format!("'{command}' names no program"));
        }
        text.push_str(&format!("ExecStart={how}{words} -- {program}\n"));
    }
    Ok(text)
}

/// A word of a command line in a unit.
pub fn unit_word(word: &str) -> String {
    let mut out = String::from("\"");
    for letter in word.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '%' | '$' => out.extend([letter, letter]),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A path as the only value of a setting that is not a command line.
pub fn unit_path(path: &str) -> String {
    path.replace('%', "%%")
}

/// A path in a list of paths.
pub fn unit_listed(path: &str) -> String {
    format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Vec<String> {
        let mut commands = Vec::new();
        texts.iter().for_each(|text| add_commands(text, &mut commands));
        commands
    }

    #[test]
    fn the_commands_of_a_service_are_those_that_systemd_would_start() {
        let unit = "[Unit]\nExecStart=no\n[Service]\n# ExecStart=no\nExecStart = /bin/a -x \\\n; comment\n  --long\n\
                    ExecStartPre=/bin/b\n\n[Install]\nExecStart=no\n";
        assert_eq!(of(&[unit]), ["/bin/a -x    --long"]);
        assert_eq!(of(&[unit, "[Service]\nExecStart=/bin/c\n"]).len(), 2);
        assert_eq!(of(&[unit, "[Service]\nExecStart=\nExecStart=-/bin/c %i\n"]), ["-/bin/c %i"]);
    }

    #[test]
    fn commands_go_through_another_program_and_what_says_how_stays_in_front() {
        let commands = ["-/usr/sbin/x --a \"b c\" ${D}".to_owned(), "!!postgres -D /x".to_owned()];
        let text = wrapped(&commands, &["/usr/bin/thaw-image", "/i/50%.img"]).unwrap();
        assert_eq!(
            text,
            "[Service]\nExecStart=\n\
             ExecStart=-\"/usr/bin/thaw-image\" \"/i/50%%.img\" -- /usr/sbin/x --a \"b c\" ${D}\n\
             ExecStart=!!\"/usr/bin/thaw-image\" \"/i/50%%.img\" -- postgres -D /x\n"
        );
        assert!(wrapped(&["@/bin/x y".to_owned()], &["t"]).unwrap_err().contains("another name"));
        assert!(wrapped(&["-".to_owned()], &["t"]).is_err());
    }

    #[test]
    fn a_unit_names_any_path() {
        assert_eq!(unit_word("/a b/50%$x\"\\"), r#""/a b/50%%$$x\"\\""#);
        assert_eq!(unit_listed("/a b/50%$x\"\\"), r#""/a b/50%%$x\"\\""#);
    }
}
