//! Questions on the terminal, each with a default and a reason.

use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal};

use sys::print::tell;

use super::arguments::How;

/// What is asked, and how it is answered without asking.
pub(super) struct Question<'q, T> {
    pub(super) asked: &'q str,
    /// Why the machine cannot tell.
    pub(super) reason: &'q str,
    /// The option that answers it.
    pub(super) option: &'q str,
    pub(super) default: &'q str,
    pub(super) read: fn(&str) -> Result<T, String>,
}

impl<T> Question<'_, T> {
    /// Returns the answer: the default's where nothing is to be asked.
    ///
    /// # Errors
    /// Where nobody can be asked, naming the option.
    pub(super) fn answer(&self, how: &How) -> Result<T, String> {
        if how.yes {
            return self.taken(self.default);
        }
        if how.json || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            let Self { asked, reason, option, default, .. } = self;
            return Err(format!(
                "{asked}: {reason}, and there is nobody to ask: say {option}, or --yes for {default}"
            ));
        }
        self.ask(&mut io::stdin().lock(), |line| tell(line))
    }

    fn ask(
        &self,
        input: &mut impl BufRead,
        mut say: impl FnMut(&dyn Display),
    ) -> Result<T, String> {
        loop {
            let Self { asked, reason, default, .. } = self;
            say(&format_args!("{asked} ({reason}) [{default}]:"));
            let mut line = String::new();
            let read = input.read_line(&mut line).map_err(|error| format!("read: {error}"))?;
            if read == 0 {
                return Err(format!(
                    "no answer; {} gives it, or --yes takes {default}",
                    self.option
                ));
            }
            let line = line.trim();
            match (self.read)(if line.is_empty() { default } else { line }) {
                Ok(answer) => return Ok(answer),
                Err(error) => say(&format_args!("  {error}")),
            }
        }
    }

    fn taken(&self, text: &str) -> Result<T, String> {
        (self.read)(text).map_err(|error| format!("{}: {error}", self.option))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_answer_is_asked_again_and_an_empty_one_is_the_default() {
        let question = Question {
            asked: "the number",
            reason: "only you know it",
            option: "--number",
            default: "7",
            read: |text| text.parse::<u32>().map_err(|_| "a number".into()),
        };
        let mut said = Vec::new();
        let mut ask =
            |input: &str| question.ask(&mut input.as_bytes(), |line| said.push(line.to_string()));
        assert_eq!(ask("\n"), Ok(7));
        assert_eq!(ask("x\n 9 \n"), Ok(9));
        assert!(ask("").is_err_and(|error| error.contains("--number")));
        assert_eq!(said.iter().filter(|line| *line == "  a number").count(), 1);
        let how = How { yes: false, force: false, json: true };
        assert!(question.answer(&how).is_err_and(|error| error.contains("--number")));
        assert_eq!(question.answer(&How { yes: true, ..how }), Ok(7));
    }
}
