//! Keeps the code of a Rust source apart from its comments and strings.
//!
//! Not a parser: it knows just enough of the lexical grammar that a brace in a string or the word
//! `unsafe` in a comment misleads no rule. Both outputs have the length and the line ends of the
//! input, with spaces where the other part stands, so that an offset means the same in all three.

/// Holds a source twice: once its code alone, once its comments alone.
#[derive(Debug)]
pub(crate) struct Masked {
    /// The code; comments and the insides of strings and character literals are spaces.
    pub(crate) code: String,
    /// The comments with their marks; everything else is spaces.
    pub(crate) comments: String,
}

impl Masked {
    /// Splits a source. Nonsense that rustc would refuse comes out as one part or the other.
    pub(crate) fn new(text: &str) -> Masked {
        let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, parts: Vec::new() };
        scanner.scan();
        Masked {
            code: scanner.keep(|part| matches!(part, Part::Code)),
            comments: scanner.keep(|part| matches!(part, Part::Comment)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Code,
    Comment,
    Literal,
}

/// Walks over the bytes once and says of each which part it belongs to.
struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
    parts: Vec<Part>,
}

impl Scanner<'_> {
    fn scan(&mut self) {
        while self.at < self.bytes.len() {
            let rest = &self.bytes[self.at..];
            if rest.starts_with(b"//") {
                let end = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
                self.take(end, Part::Comment);
            } else if rest.starts_with(b"/*") {
                self.take(block_comment_length(rest), Part::Comment);
            } else if let Some(length) = self.raw_string_length() {
                self.take(length, Part::Literal);
            } else if rest[0] == b'"' {
                self.take(quoted_length(rest, b'"'), Part::Literal);
            } else if rest[0] == b'\'' && is_character(rest) {
                self.take(quoted_length(rest, b'\''), Part::Literal);
            } else {
                self.take(1, Part::Code);
            }
        }
    }

    fn take(&mut self, count: usize, part: Part) {
        let count = count.min(self.bytes.len() - self.at);
        self.parts.extend(std::iter::repeat_n(part, count));
        self.at += count;
    }

    /// Length of a raw string that starts here (`r"…"`, `br#"…"#`), unless an identifier goes on.
    fn raw_string_length(&self) -> Option<usize> {
        let before = self.at.checked_sub(1).map(|at| self.bytes[at]);
        if before.is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return None;
        }
        let rest = &self.bytes[self.at..];
        let prefix = if rest.starts_with(b"br") || rest.starts_with(b"cr") { 2 } else { 1 };
        if rest[prefix - 1] != b'r' {
            return None;
        }
        let hashes = rest[prefix..].iter().take_while(|&&byte| byte == b'#').count();
        if rest.get(prefix + hashes) != Some(&b'"') {
            return None;
        }
        let body = prefix + hashes + 1;
        let mut end = vec![b'"'];
        end.extend(std::iter::repeat_n(b'#', hashes));
        let found = rest[body..].windows(end.len()).position(|window| window == end);
        Some(found.map_or(rest.len(), |found| body + found + end.len()))
    }

    /// Copies what `wanted` picks; of the rest, line ends stay and all else becomes a space.
    fn keep(&self, wanted: impl Fn(Part) -> bool) -> String {
        let pairs = self.bytes.iter().zip(&self.parts);
        let bytes = pairs.map(|(&byte, &part)| match byte {
            b'\n' => b'\n',
            _ if wanted(part) => byte,
            _ => b' ',
        });
        // Parts end at ASCII characters, so whole characters are kept or blanked.
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }
}

/// Length of the block comment that `rest` starts with; block comments nest.
fn block_comment_length(rest: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of the literal that `rest` starts with, up to and including the closing `quote`.
fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Tells a character literal from a lifetime: `'a'` and `'\n'` from `'a`.
fn is_character(rest: &[u8]) -> bool {
    match rest.get(1) {
        Some(b'\\') => true,
        Some(&first) => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            rest.get(1 + width) == Some(&b'\'')
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Masked::new(text).code
    }

    #[test]
    fn comments_and_literals_are_no_code() {
        assert_eq!(code("a // b {\nc"), "a       \nc");
        assert_eq!(code("a /*{/*}*/{*/ b"), "a             b");
        assert_eq!(code(r#"f("\"{", '{', '\'')"#), "f(     ,    ,     )");
        assert_eq!(code(r##"r#"{ " }"# + br"x""##), "           +      ");
    }

    #[test]
    fn lifetimes_and_identifiers_stay_code() {
        assert_eq!(code("fn f<'a>(x: &'a str)"), "fn f<'a>(x: &'a str)");
        assert_eq!(code("for \"x\""), "for    ");
        assert_eq!(code("r#type"), "r#type");
        assert_eq!(code("'é' x"), "     x");
    }

    #[test]
    fn comments_stand_alone_at_their_offsets() {
        let masked = Masked::new("let x = \"// no\"; // yes [RFC 1 §2]\n");
        assert_eq!(masked.comments.trim(), "// yes [RFC 1 §2]");
        assert_eq!(masked.comments.find("yes"), masked.comments.find("// ").map(|at| at + 3));
    }

    #[test]
    fn what_is_cut_off_is_no_panic() {
        let text = "fn f() { r##\"x\"# 'é' \"\\\" /* /* */ // '\\''";
        for end in (0..text.len()).filter(|&end| text.is_char_boundary(end)) {
            let masked = Masked::new(&text[..end]);
            assert_eq!(masked.code.lines().count(), text[..end].lines().count());
        }
    }
}
