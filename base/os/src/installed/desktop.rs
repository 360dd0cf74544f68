//! Desktop entries (launchers): a copy whose commands go through thaw. Everything else stays as it is, byte for byte.
//!
//! Source: the Desktop Entry Specification 1.5, "The Exec key" (quoting, field codes) and "D-Bus Activation".

/// A desktop entry whose commands were changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrapped {
    /// The text of the new entry.
    pub text: String,
    /// It was started by D-Bus, which knows no command line.
    pub was_dbus: bool,
}

impl Wrapped {
    /// What there is to know of it.
    pub fn note(&self) -> Option<String> {
        let text = "this program was started through D-Bus; from its launcher it is now started by its command";
        self.was_dbus.then(|| text.to_owned())
    }
}

/// Puts `before` (program and arguments, unquoted) and `--` in front of every command of the entry and of its actions.
/// Field codes such as `%u` and `TryExec` stay.
///
/// # Errors
/// In words: it starts no program.
pub fn wrap(entry: &str, before: &[&str]) -> Result<Wrapped, String> {
    let prefix = before.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let mut group = "";
    let mut text = String::new();
    let (mut commands, mut was_dbus) = (0, false);
    for line in entry.split_inclusive('\n') {
        let bare = line.trim_end_matches(['\n', '\r']);
        if let Some(name) = bare.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            group = name;
        }
        let (key, value) = bare.split_once('=').map_or((bare, ""), |(key, value)| (key.trim(), value.trim()));
        let end = &line[bare.len()..];
        match (group, key) {
            ("Desktop Entry", "Type") if value != "Application" => return Err(format!("it is of type {value}")),
            ("Desktop Entry", "DBusActivatable") if value == "true" => {
                was_dbus = true;
                text.push_str(&format!("DBusActivatable=false{end}"));
            }
            (group, "Exec") if group == "Desktop Entry" || group.starts_with("Desktop Action ") => {
                if value.is_empty() {
                    return Err("one of its commands is empty".into());
                }
                commands += 1;
                text.push_str(&format!("Exec={prefix} -- {value}{end}"));
            }
            _ => text.push_str(line),
        }
    }
    match commands {
        0 => Err("it has no command (Exec)".into()),
        _ => Ok(Wrapped { text, was_dbus }),
    }
}

/// A word as it stands in an `Exec` line.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_./:,@+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    let mut out = String::from("\"");
    for letter in word.chars() {
        match letter {
            // Quoting makes `\"` of `"`; as in every string of an entry, each backslash is then written twice.
            '"' | '`' | '$' => out.extend(["\\\\", letter.encode_utf8(&mut [0; 4])]),
            '\\' => out.push_str("\\\\\\\\"),
            '%' => out.push_str("%%"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "#!/usr/bin/env xdg-open\n\
        [Desktop Entry]\n\
        Name=Firefox ESR\n\
        Name[de]=Exec=nicht\n\
        Exec=/usr/lib/firefox-esr/firefox-esr %u\n\
        TryExec=firefox-esr\n\
        Type=Application\n\
        Actions=new;\n\
        X-Exec=other\n\
        \n\
        [Desktop Action new]\n\
        Exec = env A=b /usr/lib/firefox-esr/firefox-esr --new-window\n\
        [X-Other]\n\
        Exec=left alone";

    #[test]
    fn commands_go_through_thaw_and_the_rest_stays() {
        let wrapped = wrap(ENTRY, &["/usr/bin/thaw-preload", "/home/me/ff.preload"]).unwrap();
        let expected = ENTRY
            .replace("Exec=/usr/lib/firefox", "Exec=/usr/bin/thaw-preload /home/me/ff.preload -- /usr/lib/firefox")
            .replace("Exec = env", "Exec=/usr/bin/thaw-preload /home/me/ff.preload -- env");
        assert_eq!(wrapped, Wrapped { text: expected, was_dbus: false });
    }

    #[test]
    fn an_entry_that_dbus_starts_is_started_by_its_command() {
        let wrapped = wrap("[Desktop Entry]\r\nDBusActivatable = true\r\nExec=a\r\n", &["t"]).unwrap();
        assert_eq!(wrapped.text, "[Desktop Entry]\r\nDBusActivatable=false\r\nExec=t -- a\r\n");
        assert!(wrapped.was_dbus);
    }

    #[test]
    fn paths_with_reserved_characters_are_quoted() {
        let exec = |word| wrap("[Desktop Entry]\nExec=a\n", &[word]).unwrap().text.lines().nth(1).unwrap().to_owned();
        assert_eq!(exec("/my files/50 %"), "Exec=\"/my files/50 %%\" -- a");
        assert_eq!(exec(r#"a"$`\b"#), r#"Exec="a\\"\\$\\`\\\\b" -- a"#);
    }

    #[test]
    fn what_starts_no_program_is_refused() {
        assert_eq!(wrap("[Desktop Entry]\nType=Link\nExec=a", &["t"]).unwrap_err(), "it is of type Link");
        assert!(wrap("[Desktop Entry]\nName=a\n", &["t"]).unwrap_err().contains("no command"));
        assert!(wrap("[Desktop Entry]\nExec=\n", &["t"]).unwrap_err().contains("empty"));
        assert!(wrap("", &["t"]).is_err());
    }
}
