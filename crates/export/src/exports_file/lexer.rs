//! Splits a file into words, each byte with its position: quotes, octal escapes, comments,
//! continued lines.
//!
//! As in nfs-utils: a backslash at the end of a line continues it (also a comment), and is a blank;
//! three octal digits after a backslash are a byte; any other backslash is literal.

use super::Diagnostic;

/// A word; `bytes` without quotes and escapes, `places` the (line, column) of each byte.
#[derive(Debug)]
pub struct Word {
    bytes: Vec<u8>,
    places: Vec<(usize, usize)>,
    start: (usize, usize),
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
        self.places.get(offset).or(self.places.last()).copied().unwrap_or(self.start)
    }

    fn push(&mut self, byte: u8, place: (usize, usize)) {
        self.bytes.push(byte);
        self.places.push(place);
    }
}

/// Reads a file, one logical line at a time.
pub struct Lexer<'a> {
    rest: &'a [u8],
    line: usize,
    column: usize,
}

impl<'a> Lexer<'a> {
    /// From the beginning.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, line: 1, column: 1 }
    }

    /// The words of the next logical line that has any; `None` at the end of the file.
    pub fn next_line(&mut self, errors: &mut Vec<Diagnostic>) -> Option<Vec<Word>> {
        while !self.rest.is_empty() {
            let words = self.read_line(errors);
            if !words.is_empty() {
                return Some(words);
            }
        }
        None
    }

    /// Reads to the end of the logical line.
    fn read_line(&mut self, errors: &mut Vec<Diagnostic>) -> Vec<Word> {
        let mut words = Vec::new();
        loop {
            self.skip_blanks();
            match self.rest.first() {
                Some(b'\n') => {
                    self.take();
                    return words;
                }
                Some(_) => words.push(self.word(words.is_empty(), errors)),
                None => return words,
            }
        }
    }

    /// Skips blanks, continuations and a comment.
    fn skip_blanks(&mut self) {
        let mut comment = false;
        while let Some(byte) = self.rest.first() {
            match byte {
                b'\n' => return,
                b'#' => comment = true,
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => {}
                b'\\' if self.continues() => {
                    self.take();
                }
                _ if comment => {}
                _ => return,
            }
            self.take();
        }
    }

    /// Whether a backslash here is the last of its line.
    fn continues(&self) -> bool {
        self.rest.starts_with(b"\\\n")
    }

    /// The next byte and its position.
    fn take(&mut self) -> Option<(u8, (usize, usize))> {
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

    /// Reads a word. In a path, `#` is an ordinary character; after a client it begins a comment.
    fn word(&mut self, is_path: bool, errors: &mut Vec<Diagnostic>) -> Word {
        let start = (self.line, self.column);
        let mut word = Word { bytes: Vec::new(), places: Vec::new(), start, quoted: false };
        let mut quote = None;
        while let Some(byte) = self.rest.first() {
            let plain = quote.is_none();
            let blank = matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c);
            let ends = blank || (*byte == b'#' && !is_path) || self.continues();
            if *byte == b'\n' || plain && ends {
                break;
            }
            let continued = self.continues();
            let Some((byte, place)) = self.take() else { break };
            match byte {
                b'"' => {
                    quote = if plain { Some(place) } else { None };
                    word.quoted = true;
                }
                b'\\' if continued => {
                    self.take();
                    word.push(b' ', place);
                }
                b'\\' => word.push(self.octal().unwrap_or(byte), place),
                other => word.push(other, place),
            }
        }
        if let Some((line, column)) = quote {
            errors.push(Diagnostic { line, column, text: "this quote is not closed".into() });
        }
        word
    }

    /// Three octal digits, up to `377`.
    fn octal(&mut self) -> Option<u8> {
        let mut value = 0u32;
        for digit in self.rest.first_chunk::<3>()? {
            value = value * 8 + char::from(*digit).to_digit(8)?;
        }
        let value = u8::try_from(value).ok()?;
        (0..3).for_each(|_| {
            self.take();
        });
        Some(value)
    }
}
