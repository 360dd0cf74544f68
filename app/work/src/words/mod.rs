//! The words that documents and text share: figures with their units, names made to fit. Nothing is printed in here.

pub mod units;
pub mod width;

/// Text of the program or the file system without what would move the cursor.
pub fn harmless(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_a_file_name_do_not_reach_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
