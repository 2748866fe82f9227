//! Words of a file, each byte with its place: quotes, octal escapes, comments, continued lines.

use super::{Parsed, Remark};

/// A word; `bytes` without quotes and escapes, `places` the (line, column) of each byte.
#[derive(Debug, Default)]
pub struct Word {
    bytes: Vec<u8>,
    places: Vec<(usize, usize)>,
    quoted: bool,
}

impl Word {
    /// The word itself.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it was written without quotes.
    pub const fn is_plain(&self) -> bool {
        !self.quoted
    }

    /// Line and column of a byte of the word; of its last one for an offset beyond.
    pub fn place(&self, offset: usize) -> (usize, usize) {
        self.places.get(offset).or(self.places.last()).copied().unwrap_or((1, 1))
    }

    fn push(&mut self, byte: u8, place: (usize, usize)) {
        self.bytes.push(byte);
        self.places.push(place);
    }
}

/// Words grouped by logical line; empty lines and comments are gone.
pub fn logical_lines(bytes: &[u8], parsed: &mut Parsed) -> Vec<Vec<Word>> {
    let mut lexer = Lexer { rest: bytes, line: 1, column: 1 };
    let mut lines = Vec::new();
    while !lexer.rest.is_empty() {
        let words = lexer.line(parsed);
        if !words.is_empty() {
            lines.push(words);
        }
    }
    lines
}

struct Lexer<'a> {
    rest: &'a [u8],
    line: usize,
    column: usize,
}

impl Lexer<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next byte and its place.
    fn next(&mut self) -> Option<(u8, (usize, usize))> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        let place = (self.line, self.column);
        if *byte == b'\n' {
            self.line += 1;
            self.column = 1;
        } else {
            self.column += 1;
        }
        Some((*byte, place))
    }

    /// Reads to the end of the logical line.
    fn line(&mut self, parsed: &mut Parsed) -> Vec<Word> {
        let mut words = Vec::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'\n' => {
                    self.next();
                    break;
                }
                b' ' | b'\t' | b'\r' => {
                    self.next();
                }
                b'\\' if self.rest.get(1) == Some(&b'\n') => {
                    self.next();
                    self.next();
                }
                b'#' => self.skip_comment(),
                _ => words.push(self.word(parsed)),
            }
        }
        words
    }

    fn skip_comment(&mut self) {
        while self.peek().is_some_and(|b| b != b'\n') {
            self.next();
        }
    }

    fn word(&mut self, parsed: &mut Parsed) -> Word {
        let mut word = Word::default();
        let mut quote = None;
        while let Some(byte) = self.peek() {
            let ends = matches!(byte, b' ' | b'\t' | b'\r' | b'#');
            if byte == b'\n' || quote.is_none() && ends {
                break;
            }
            let Some((byte, place)) = self.next() else { break };
            match byte {
                b'"' => {
                    quote = if quote.is_none() { Some(place) } else { None };
                    word.quoted = true;
                }
                b'\\' => match self.octal() {
                    Some(escaped) => word.push(escaped, place),
                    None if self.peek() == Some(b'\n') => {
                        self.next();
                        break;
                    }
                    None => word.push(b'\\', place),
                },
                other => word.push(other, place),
            }
        }
        if let Some((line, column)) = quote {
            parsed.errors.push(Remark { line, column, text: "this quote has no end".into() });
        }
        if word.places.is_empty() {
            word.places.push((self.line, self.column));
        }
        word
    }

    /// Three octal digits behind a backslash, up to `\377`.
    fn octal(&mut self) -> Option<u8> {
        let digits = self.rest.first_chunk::<3>()?;
        let mut value = 0u32;
        for digit in digits {
            value = value * 8 + char::from(*digit).to_digit(8)?;
        }
        let value = u8::try_from(value).ok()?;
        for _ in 0..3 {
            self.next();
        }
        Some(value)
    }
}
