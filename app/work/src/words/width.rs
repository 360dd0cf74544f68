//! How many columns a text takes, and making it fit.

/// Columns that a text takes; escape codes take none. Wide letters of East Asian scripts count as two.
pub fn columns(text: &str) -> usize {
    let mut columns = 0;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\x1b' {
            for escape in letters.by_ref() {
                if escape == 'm' {
                    break;
                }
            }
        } else {
            columns += letter_columns(letter);
        }
    }
    columns
}

fn letter_columns(letter: char) -> usize {
    match letter as u32 {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xff00..=0xff60 | 0x1f300..=0x1faff => {
            2
        }
        _ => 1,
    }
}

/// The text, shortened in its middle to this many columns; names end in what tells them apart.
pub fn shorten(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let keep = room.saturating_sub(1);
    let tail_room = keep * 2 / 3;
    let head = take_columns(text.chars(), keep - tail_room);
    let tail: String = take_columns(text.chars().rev(), tail_room).chars().rev().collect();
    format!("{head}…{tail}")
}

/// The text, cut at its end to this many columns.
pub fn cut(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    format!("{}…", take_columns(text.chars(), room.saturating_sub(1)))
}

fn take_columns(letters: impl Iterator<Item = char>, room: usize) -> String {
    let mut used = 0;
    letters
        .take_while(|letter| {
            used += letter_columns(*letter);
            used <= room
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened_in_the_middle() {
        assert_eq!(shorten("/usr/lib/firefox-esr/libxul.so", 16), "/usr/…/libxul.so");
        assert_eq!(shorten("short", 16), "short");
        assert_eq!(cut("a long sentence", 7), "a long…");
        assert!(columns(&shorten("名前名前名前名前", 9)) <= 9);
    }

    #[test]
    fn escape_codes_take_no_room() {
        assert_eq!(columns("\x1b[1mbold\x1b[0m"), 4);
    }
}
