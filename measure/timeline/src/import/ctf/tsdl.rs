//! TSDL: types, and blocks of what they are used for, one after the other. Pure.

use super::blocks::{Block, Literal, aligned};
use super::layout::{DEEPEST, Field, Kind, Label, Metadata, Reference, Type};
use super::tokens::{Fault, Token, tokens};
use std::collections::HashMap;
use std::rc::Rc;

type Parsed<T> = Result<T, Fault>;

/// What a text describes. One that is cut is read as far as its blocks are whole.
///
/// # Errors
/// The line that is no TSDL, or describes nothing that can be read.
pub fn metadata(text: &str) -> Parsed<Metadata> {
    let (tokens, is_cut) = tokens(text)?;
    let last_line = tokens.last().map_or(1, |(_, line)| *line);
    let mut parser = Parser { tokens, at: 0, scopes: vec![HashMap::new()], depth: 0 };
    let mut metadata = Metadata { cut_at: is_cut.then_some(last_line), ..Metadata::default() };
    while parser.at < parser.tokens.len() {
        match parser.top(&mut metadata) {
            Ok(()) => {}
            Err(fault) if fault.is_end => {
                metadata.cut_at = Some(last_line);
                break;
            }
            Err(fault) => return Err(fault),
        }
    }
    if metadata.is_big.is_none() {
        return Err(Fault { line: last_line, why: "no trace is described up to here".to_owned(), is_end: true });
    }
    Ok(metadata)
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    /// Types by name, those of inner blocks last.
    scopes: Vec<HashMap<String, Rc<Type>>>,
    depth: u32,
}

impl Parser {
    fn line(&self) -> u32 {
        let at = self.at.min(self.tokens.len().saturating_sub(1));
        self.tokens.get(at).map_or(1, |(_, line)| *line)
    }

    fn fault<T>(&self, why: impl Into<String>) -> Parsed<T> {
        Err(Fault { line: self.line(), why: why.into(), is_end: self.at >= self.tokens.len() })
    }

    fn is_sign(&self, sign: &str) -> bool {
        matches!(self.tokens.get(self.at), Some((Token::Sign(found), _)) if *found == sign)
    }

    /// Past the sign, if it is there.
    fn passes(&mut self, sign: &str) -> bool {
        let is_there = self.is_sign(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn expects(&mut self, sign: &str) -> Parsed<()> {
        if self.passes(sign) { Ok(()) } else { self.fault(format!("`{sign}` is expected here")) }
    }

    fn peeked(&self) -> Option<Rc<str>> {
        match self.tokens.get(self.at) {
            Some((Token::Word(word), _)) => Some(Rc::clone(word)),
            _ => None,
        }
    }

    fn word(&mut self) -> Parsed<Rc<str>> {
        let Some(word) = self.peeked() else { return self.fault("a name is expected here") };
        self.at += 1;
        Ok(word)
    }

    fn dotted(&mut self) -> Parsed<Reference> {
        let mut names = vec![self.word()?];
        while self.passes(".") {
            names.push(self.word()?);
        }
        Ok(names)
    }

    fn number(&mut self) -> Parsed<i128> {
        let is_negative = self.passes("-");
        if !is_negative {
            self.passes("+");
        }
        let Some((Token::Number(number), _)) = self.tokens.get(self.at) else {
            return self.fault("a number is expected here");
        };
        self.at += 1;
        Ok(if is_negative { -number } else { *number })
    }

    fn top(&mut self, metadata: &mut Metadata) -> Parsed<()> {
        if self.passes(";") || self.declares()? {
            return Ok(());
        }
        let line = self.line();
        let kind = self.word()?;
        let block = self.block()?;
        self.expects(";")?;
        block.tells(&kind, metadata).map_err(|why| Fault { line, why, is_end: false })
    }

    /// A declaration of a type alone, if one is here.
    fn declares(&mut self) -> Parsed<bool> {
        match self.peeked().as_deref() {
            Some("typealias") => {
                self.at += 1;
                let of = self.type_of(false)?;
                self.expects(":=")?;
                let name = self.alias(0)?;
                self.declare(name, of)?;
            }
            Some("typedef") => {
                self.at += 1;
                let of = self.type_of(true)?;
                self.declarators(&of)?.into_iter().try_for_each(|it| self.declare(it.name.to_string(), it.of))?;
            }
            Some("struct" | "enum" | "variant") => {
                self.type_of(true)?;
            }
            _ => return Ok(false),
        }
        self.expects(";")?;
        Ok(true)
    }

    fn declare(&mut self, name: String, of: Rc<Type>) -> Parsed<()> {
        let Some(scope) = self.scopes.last_mut() else { return self.fault("no scope is open") };
        scope.insert(name, of);
        Ok(())
    }

    fn known(&self, name: &str) -> Parsed<Rc<Type>> {
        match self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            Some(of) => Ok(Rc::clone(of)),
            None => self.fault(format!("no type is called {name}")),
        }
    }

    /// The words of a name such as `unsigned long`, all but the last `spared`.
    fn alias(&mut self, spared: usize) -> Parsed<String> {
        let is_word = |(token, _): &&(Token, u32)| matches!(token, Token::Word(_));
        let count = self.tokens[self.at..].iter().take_while(is_word).count();
        let mut words = Vec::new();
        for _ in 0..count.saturating_sub(spared) {
            words.push(self.word()?);
        }
        words.retain(|word| &**word != "const");
        if words.is_empty() { self.fault("a type is expected here") } else { Ok(words.join(" ")) }
    }

    /// A type. `is_named`: behind it stands the name of what has it.
    fn type_of(&mut self, is_named: bool) -> Parsed<Rc<Type>> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return self.fault("types lie too deep in each other");
        }
        let word = self.peeked();
        let of = match word.as_deref() {
            Some("struct") => self.structure()?,
            Some("variant") => self.variant()?,
            Some("enum") => self.enumeration()?,
            Some("integer") => self.attributed(Block::integer)?,
            Some("floating_point") => self.attributed(Block::float)?,
            Some("string") => {
                self.at += 1;
                if self.is_sign("{") {
                    self.block()?;
                }
                Rc::new(Type::new(Kind::Text, 8))
            }
            _ => {
                let name = self.alias(usize::from(is_named))?;
                self.known(&name)?
            }
        };
        if of.depth > DEEPEST {
            return self.fault("types lie too deep in each other");
        }
        self.depth -= 1;
        Ok(of)
    }

    fn attributed(&mut self, made: fn(&Block) -> Result<Type, String>) -> Parsed<Rc<Type>> {
        self.at += 1;
        let line = self.line();
        let block = self.block()?;
        made(&block).map(Rc::new).map_err(|why| Fault { line, why, is_end: false })
    }

    /// A type with a name, or that is one: `struct name`, `struct name {…}`, `struct {…}`.
    fn tagged(
        &mut self,
        keyword: &str,
        body: impl FnOnce(&mut Self, Option<Reference>) -> Parsed<Rc<Type>>,
    ) -> Parsed<Rc<Type>> {
        self.at += 1;
        let name = self.peeked().map(|name| format!("{keyword} {name}"));
        self.at += usize::from(name.is_some());
        let tag = if keyword == "variant" && self.passes("<") {
            let tag = self.dotted()?;
            self.expects(">")?;
            Some(tag)
        } else {
            None
        };
        match name {
            Some(name) if !self.is_sign("{") && !self.is_sign(":") => {
                let of = self.known(&name)?;
                Ok(match (&of.kind, tag) {
                    (Kind::Variant { choices, .. }, Some(tag)) => {
                        Rc::new(Type::new(Kind::Variant { tag: Some(tag), choices: Rc::clone(choices) }, 1))
                    }
                    _ => of,
                })
            }
            name => {
                let of = body(self, tag)?;
                if let Some(name) = name {
                    self.declare(name, Rc::clone(&of))?;
                }
                Ok(of)
            }
        }
    }

    fn structure(&mut self) -> Parsed<Rc<Type>> {
        self.tagged("struct", |parser, _| {
            let fields = parser.fields()?;
            let mut align = 1;
            if parser.peeked().as_deref() == Some("align") {
                parser.at += 1;
                parser.expects("(")?;
                let number = parser.number()?;
                let Some(bits) = aligned(number) else { return parser.fault(format!("{number} is no alignment")) };
                align = bits;
                parser.expects(")")?;
            }
            Ok(Rc::new(Type::new(Kind::Struct(fields), align)))
        })
    }

    fn variant(&mut self) -> Parsed<Rc<Type>> {
        self.tagged("variant", |parser, tag| {
            let choices = parser.fields()?.into();
            Ok(Rc::new(Type::new(Kind::Variant { tag, choices }, 1)))
        })
    }

    fn fields(&mut self) -> Parsed<Vec<Field>> {
        self.expects("{")?;
        self.scopes.push(HashMap::new());
        let mut fields = Vec::new();
        while !self.passes("}") {
            let is_type = matches!(self.peeked().as_deref(), Some("struct" | "enum" | "variant"));
            if !is_type && self.declares()? {
                continue;
            }
            let of = self.type_of(true)?;
            if is_type && self.passes(";") {
                // A type alone, of no field.
                continue;
            }
            fields.extend(self.declarators(&of)?);
            self.expects(";")?;
        }
        self.scopes.pop();
        Ok(fields)
    }

    /// Names with what makes arrays of their type: `a, b[3][length]`.
    fn declarators(&mut self, of: &Rc<Type>) -> Parsed<Vec<Field>> {
        let mut all = Vec::new();
        loop {
            let name = self.word()?;
            let mut lengths = Vec::new();
            while self.passes("[") {
                lengths.push(if self.peeked().is_some() { Err(self.dotted()?) } else { Ok(self.number()?) });
                self.expects("]")?;
            }
            let mut of = Rc::clone(of);
            for length in lengths.into_iter().rev() {
                let align = of.align;
                let kind = match length {
                    Ok(number) => match u64::try_from(number) {
                        Ok(length) => Kind::Array { of, length },
                        Err(_) => return self.fault(format!("{number} is no length")),
                    },
                    Err(length) => Kind::Sequence { of, length },
                };
                of = Rc::new(Type::new(kind, align));
                if of.depth > DEEPEST {
                    return self.fault("types lie too deep in each other");
                }
            }
            all.push(Field { name, of });
            if !self.passes(",") {
                return Ok(all);
            }
        }
    }

    fn enumeration(&mut self) -> Parsed<Rc<Type>> {
        self.tagged("enum", |parser, _| {
            let of = if parser.passes(":") { parser.type_of(false)? } else { parser.known("int")? };
            let Kind::Integer(integer) = &of.kind else { return parser.fault("an enumeration is of integers") };
            let labels = parser.labels()?;
            Ok(Rc::new(Type::new(Kind::Enum { of: integer.clone(), labels }, of.align)))
        })
    }

    fn labels(&mut self) -> Parsed<Vec<Label>> {
        self.expects("{")?;
        let (mut labels, mut next) = (Vec::new(), 0);
        while !self.passes("}") {
            let name = match self.tokens.get(self.at) {
                Some((Token::Word(name) | Token::Text(name), _)) => Rc::clone(name),
                _ => return self.fault("a label is expected here"),
            };
            self.at += 1;
            let from = if self.passes("=") { self.number()? } else { next };
            let to = if self.passes("...") { self.number()? } else { from };
            next = to.saturating_add(1);
            labels.push(Label { name, from, to });
            if !self.passes(",") && !self.is_sign("}") {
                return self.fault("`,` is expected here");
            }
        }
        Ok(labels)
    }

    /// `{ name = value; name := type; … }`
    fn block(&mut self) -> Parsed<Block> {
        self.expects("{")?;
        self.scopes.push(HashMap::new());
        let mut block = Block::default();
        while !self.passes("}") {
            if self.declares()? {
                continue;
            }
            let name = self.dotted()?.join(".");
            if self.passes(":=") {
                let of = self.type_of(false)?;
                block.types.insert(name, of);
            } else {
                self.expects("=")?;
                let value = self.literal()?;
                block.values.insert(name, value);
            }
            self.expects(";")?;
        }
        self.scopes.pop();
        Ok(block)
    }

    fn literal(&mut self) -> Parsed<Literal> {
        Ok(match self.tokens.get(self.at) {
            Some((Token::Word(_), _)) => Literal::Name(self.dotted()?.join(".")),
            Some((Token::Text(text), _)) => {
                let text = Literal::Text(text.to_string());
                self.at += 1;
                text
            }
            _ => Literal::Number(self.number()?),
        })
    }
}
