//! The words, numbers, texts and signs of TSDL, the language of a trace's metadata. Pure.

use std::rc::Rc;

/// Longest word or text, in bytes: keys of arguments are made of them.
const LONGEST: usize = 4096;

/// Why a text is no metadata, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub line: u32,
    pub why: String,
    /// The text ends there.
    pub is_end: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Word(Rc<str>),
    Text(Rc<str>),
    Number(i128),
    Sign(&'static str),
}

/// Longer ones first.
const SIGNS: [&str; 18] = ["...", ":=", "{", "}", "[", "]", "(", ")", "<", ">", ";", ":", ",", "=", ".", "-", "+", "*"];

/// All tokens with their lines, and whether the text ends within one.
///
/// # Errors
/// A character that nothing begins with, or what is too long or too large.
pub fn tokens(text: &str) -> Result<(Vec<(Token, u32)>, bool), Fault> {
    let mut lexer = Lexer { rest: text, line: 1 };
    let mut all = Vec::new();
    loop {
        if !lexer.skip() {
            return Ok((all, true));
        }
        let line = lexer.line;
        match lexer.token()? {
            Some(token) => all.push((token, line)),
            None => return Ok((all, !lexer.rest.is_empty())),
        }
    }
}

struct Lexer<'a> {
    rest: &'a str,
    line: u32,
}

impl Lexer<'_> {
    fn fault<T>(&self, why: impl Into<String>) -> Result<T, Fault> {
        Err(Fault { line: self.line, why: why.into(), is_end: false })
    }

    fn step(&mut self, bytes: usize) {
        let (gone, rest) = self.rest.split_at(bytes);
        self.line += gone.bytes().filter(|byte| *byte == b'\n').count() as u32;
        self.rest = rest;
    }

    /// Past spaces and comments; `false`: the text ends within a comment.
    fn skip(&mut self) -> bool {
        loop {
            let spaces = self.rest.len() - self.rest.trim_start_matches([' ', '\t', '\r', '\n', '\0']).len();
            self.step(spaces);
            let end = if self.rest.starts_with("/*") {
                self.rest[2..].find("*/").map(|at| at + 4)
            } else if self.rest.starts_with("//") {
                Some(self.rest.find('\n').unwrap_or(self.rest.len()))
            } else {
                return true;
            };
            let Some(end) = end else { return false };
            self.step(end);
        }
    }

    /// `None`: the text is at its end, or ends within a text.
    fn token(&mut self) -> Result<Option<Token>, Fault> {
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        if first == '"' {
            return self.text();
        }
        if first.is_ascii_alphanumeric() || first == '_' {
            let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
            if end > LONGEST {
                return self.fault("a word is too long");
            }
            let word = &self.rest[..end];
            let token = if first.is_ascii_digit() {
                let Some(number) = number(word) else { return self.fault(format!("{word} is no number")) };
                Token::Number(number)
            } else {
                Token::Word(word.into())
            };
            self.step(end);
            return Ok(Some(token));
        }
        let Some(sign) = SIGNS.into_iter().find(|sign| self.rest.starts_with(sign)) else {
            return self.fault(format!("{first:?} begins nothing"));
        };
        self.step(sign.len());
        Ok(Some(Token::Sign(sign)))
    }

    fn text(&mut self) -> Result<Option<Token>, Fault> {
        let (mut text, mut chars) = (String::new(), self.rest.char_indices().skip(1));
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.step(at + 1);
                    return Ok(Some(Token::Text(text.into())));
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, other)) => text.push(other),
                    None => return Ok(None),
                },
                _ => text.push(c),
            }
            if text.len() > LONGEST {
                return self.fault("a text is too long");
            }
        }
        Ok(None)
    }
}

/// Decimal, hexadecimal or octal, with C's suffixes.
fn number(word: &str) -> Option<i128> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    number.ok().map(i128::from)
}
