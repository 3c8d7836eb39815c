//! A file reads from the top: what it is, then what others may use, then the rest, tests last.
//!
//! Checked: every Rust file opens with a `//!` text; among its free functions the public ones
//! (`pub`, `pub(crate)`, `pub(super)`) come before the private ones; an inherent `impl` that has
//! public functions begins with them, and may then put a step of its own right below the one
//! caller; nothing follows the tests. Not checked: callers before callees.

use super::{Finding, at_byte, closing, words_of};
use crate::tree::{File, Tree};

/// Finds files that do not read from the top.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<Finding> {
    let Some(rust) = &file.rust else { return Vec::new() };
    let items = items(&rust.code, 0, rust.code.len());
    let mut places = public_after_private(&items);
    for block in items.iter().filter(|item| item.is_inherent_impl()) {
        places.extend(private_opening(&items_inside(&rust.code, block)));
    }
    let found = places.into_iter().map(|(at, name)| {
        at_byte(file, at, "order", format!("public fn {name} follows a private one"))
    });
    found.chain(opening(file)).chain(after_tests(file, &items)).collect()
}

fn opening(file: &File) -> Option<Finding> {
    let text = "the file does not open with a `//!` text: what it is, where it sits".to_owned();
    (!file.text.starts_with("//! ")).then(|| at_byte(file, 0, "order", text))
}

fn after_tests(file: &File, items: &[Item<'_>]) -> Option<Finding> {
    let tests = items.iter().position(|item| item.is_tests())?;
    let after = items.get(tests + 1)?;
    Some(at_byte(file, after.start, "order", "code follows the tests".to_owned()))
}

/// Lists the public functions that follow a private one: where and which.
fn public_after_private<'a>(items: &[Item<'a>]) -> Vec<(usize, &'a str)> {
    let private = functions(items).position(|function| !function.public).unwrap_or(usize::MAX);
    let public = functions(items).skip(private).filter(|function| function.public);
    public.map(|function| (function.at, function.name)).collect()
}

/// Gives the first public function where a private one opens an `impl`.
fn private_opening<'a>(items: &[Item<'a>]) -> Option<(usize, &'a str)> {
    // What makes the value comes first, even where only this module may call it.
    let first = functions(items).next();
    let first_is_private = first.is_some_and(|first| !first.public && first.name != "new");
    let public = functions(items).find(|function| function.public);
    public.filter(|_| first_is_private).map(|function| (function.at, function.name))
}

/// Holds a function that counts for the order.
struct Function<'a> {
    at: usize,
    name: &'a str,
    public: bool,
}

fn functions<'a>(items: &[Item<'a>]) -> impl Iterator<Item = Function<'a>> {
    items.iter().filter_map(|item| {
        let (at, name) = item.function()?;
        let public = words_of(item.head).any(|(_, word)| word == "pub");
        // What is compiled for tests alone, and where a program starts, may stand anywhere.
        let counts = !item.head.contains("cfg(test)") && name != "main";
        counts.then_some(Function { at: item.start + at, name, public })
    })
}

/// Holds one item: what stands before its braces, attributes included, and where its braces are.
struct Item<'a> {
    start: usize,
    head: &'a str,
    braces: Option<(usize, usize)>,
}

impl<'a> Item<'a> {
    /// Gives a function's place in the head and its name.
    fn function(&self) -> Option<(usize, &'a str)> {
        let words: Vec<_> = words_of(self.head).collect();
        let at = words.iter().position(|(_, word)| *word == "fn")?;
        let (_, name) = *words.get(at + 1)?;
        let before = words[..at].iter().map(|(_, word)| *word);
        let other = ["impl", "struct", "enum", "trait", "type", "static", "macro_rules"];
        (!before.into_iter().any(|word| other.contains(&word))).then_some((words[at].0, name))
    }

    fn is_inherent_impl(&self) -> bool {
        let mut words = words_of(self.head).map(|(_, word)| word);
        words.any(|word| word == "impl") && !self.implements_a_trait()
    }

    /// Tells `impl Trait for Type` from `impl<F: for<'a> Fn(&'a u8)> Type<F>`.
    fn implements_a_trait(&self) -> bool {
        words_of(self.head)
            .any(|(at, word)| word == "for" && !self.head[at + 3..].trim_start().starts_with('<'))
    }

    fn is_tests(&self) -> bool {
        self.head.contains("#[cfg(test)]")
            && words_of(self.head).any(|(_, word)| word == "mod")
            && self.braces.is_some()
    }
}

fn items_inside<'a>(code: &'a str, block: &Item<'a>) -> Vec<Item<'a>> {
    block.braces.map(|(open, close)| items(code, open + 1, close)).unwrap_or_default()
}

/// Splits a stretch of code into items: each ends with `;` or a closing brace.
fn items(code: &str, from: usize, to: usize) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let (mut start, mut at) = (from, from);
    while at < to {
        let end = match code.as_bytes()[at] {
            b';' => Some((at, None)),
            b'{' => {
                let close = closing(code, at).min(to);
                Some((close, Some((at, close))))
            }
            b'(' | b'[' => {
                at = closing(code, at).min(to);
                None
            }
            _ => None,
        };
        if let Some((end, braces)) = end {
            let head_end = braces.map_or(end, |(open, _)| open);
            let blank = code[start..head_end].len() - code[start..head_end].trim_start().len();
            items.push(Item { start: start + blank, head: &code[start + blank..head_end], braces });
            at = end;
            start = end + 1;
        }
        at += 1;
    }
    items
}

#[cfg(test)]
mod tests {
    use super::super::tests::{shown, tree};
    use super::*;

    fn found(code: &str) -> Vec<String> {
        shown(check(&tree(&[("a.rs", &format!("//! A.\n{code}"))])))
    }

    #[test]
    fn a_file_opens_with_what_it_is() {
        let findings = check(&tree(&[("a.rs", "\n//! A.\n"), ("b.rs", "//! B.\n"), ("c.py", "")]));
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].path.as_str(), findings[0].line), ("a.rs", 1));
    }

    #[test]
    fn public_functions_come_first() {
        let code = "pub fn a() {}\nfn b() -> [u8; 2] { c(); }\npub(crate) fn d(x: fn(u8)) {}\n";
        assert_eq!(found(code), ["a.rs:4 public fn d follows a private one"]);
        let code = "fn main() {}\npub fn a() {}\nstruct S { f: fn(u8) }\nfn b() {}\n";
        assert_eq!(found(code), [""; 0]);
    }

    #[test]
    fn each_inherent_impl_is_looked_at_and_trait_impls_are_not() {
        let code = "impl<F: for<'a> Fn(&'a u8)> S<F> { fn a() {} const X: u8 = 1;\npub fn b() {} }\n\
                    impl T for S { fn c() {} }\nimpl R { fn new() {} pub fn d() {}\nfn e() {} pub fn f() {} }\n";
        assert_eq!(found(code), ["a.rs:3 public fn b follows a private one"]);
    }

    #[test]
    fn tests_come_last() {
        let code = "#[cfg(test)]\nmod tests { fn a() {}\npub fn b() {} }\nfn c() {}\n";
        assert_eq!(found(code), ["a.rs:5 code follows the tests"]);
        assert_eq!(found("#[cfg(test)]\nmod tests;\nfn c() {}\n"), [""; 0]);
    }

    #[test]
    fn code_that_is_cut_off_is_no_panic() {
        let code =
            "impl S { pub fn a(x: [u8; 3]) -> u8 { b[(1)] } fn c(); } #[cfg(test)] mod tests { }";
        for end in 0..code.len() {
            found(&code[..end]);
        }
    }
}
