//! Splits a text into tokens. Never fails: what no token begins with is skipped, as filebench does, and reported.

use crate::finding::{Finding, Span};

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// Digits with an optional suffix.
    Integer(u64),
    /// A bare word; also every keyword.
    Word(String),
    /// What stands between double quotes, as written.
    Quoted(String),
    /// `$name`, without the `$`; `(X)` and `{X}` keep their brackets.
    Variable(String),
    /// One of `= , { } + * / .`
    Sign(char),
}

/// A token and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// What it is.
    pub token: Token,
    /// Where it stands.
    pub span: Span,
    /// Whether it is the first of its line.
    pub first_of_line: bool,
}

/// The tokens of a text, and what was found wrong.
pub fn lex(source: &str) -> (Vec<Placed>, Vec<Finding>) {
    let mut lexer = Lexer { source, at: 0, findings: Vec::new() };
    let mut tokens = Vec::new();
    let mut first_of_line = true;
    while let Some(letter) = lexer.peek() {
        let start = lexer.at;
        match letter {
            '\n' => {
                first_of_line = true;
                lexer.at += 1;
            }
            letter if letter.is_ascii_whitespace() => lexer.at += 1,
            '#' => {
                lexer.take_while(|letter| letter != '\n');
            }
            _ => match lexer.token(letter) {
                Some(token) => {
                    tokens.push(Placed { token, span: Span { start, end: lexer.at }, first_of_line });
                    first_of_line = false;
                }
                None => lexer.skip(start),
            },
        }
    }
    (tokens, lexer.findings)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    findings: Vec<Finding>,
}

impl<'a> Lexer<'a> {
    fn peek(&self) -> Option<char> {
        self.source[self.at..].chars().next()
    }

    fn take_while(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.source[self.at..];
        let length = rest.find(|letter| !fits(letter)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// The token that begins with `letter`; on None nothing is taken.
    fn token(&mut self, letter: char) -> Option<Token> {
        match letter {
            '0'..='9' => Some(self.integer()),
            '"' => Some(self.quoted()),
            '$' => self.variable(),
            '=' | ',' | '{' | '}' | '+' | '*' | '(' | ')' => {
                self.at += 1;
                Some(Token::Sign(letter))
            }
            '/' | '-' => {
                let word = self.take_while(in_word);
                Some(Token::Word(word.to_owned()))
            }
            letter if letter.is_ascii_alphabetic() => Some(Token::Word(self.take_while(in_word).to_owned())),
            _ => None,
        }
    }

    fn integer(&mut self) -> Token {
        let start = self.at;
        let digits = self.take_while(|letter| letter.is_ascii_digit());
        let shift = match self.peek() {
            Some('k') => 10,
            Some('m') => 20,
            Some('g') => 30,
            _ => 0,
        };
        self.at += usize::from(shift > 0);
        let span = Span { start, end: self.at };
        let value = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
        if let Some('K' | 'M' | 'G' | 'T' | 't') = self.peek() {
            let letter = Span { start: self.at, end: self.at + 1 };
            self.findings
                .push(Finding::error(letter, "The suffixes are k, m and g, in lower case; write the number so."));
            self.at += 1;
        }
        Token::Integer(value.filter(|&value| value <= i64::MAX as u64).unwrap_or_else(|| {
            self.findings.push(Finding::error(span, "This number is too large; write one below 8 Ei."));
            0
        }))
    }

    fn quoted(&mut self) -> Token {
        let start = self.at;
        self.at += 1;
        let inside = self.take_while(|letter| letter != '"').to_owned();
        if self.peek().is_some() {
            self.at += 1;
        } else {
            let span = Span { start, end: start + 1 };
            self.findings.push(Finding::error(span, "This string does not end; close it with a double quote."));
        }
        Token::Quoted(inside)
    }

    /// `$name`, `$name.field`, `$(name)` or `${name}`. A name has two characters at least and ends in a letter or digit.
    fn variable(&mut self) -> Option<Token> {
        let rest = &self.source[self.at + 1..];
        let (open, close) = match rest.chars().next() {
            Some('(') => ("(", ")"),
            Some('{') => ("{", "}"),
            _ => ("", ""),
        };
        let inner = &rest[open.len()..];
        let length = name_length(inner);
        if length == 0 || !inner[length..].starts_with(close) {
            return None;
        }
        let mut end = open.len() + length + close.len();
        if open.is_empty() {
            // 1.4.9: a field of a random variable.
            if let Some(field) = inner[length..].strip_prefix('.') {
                let letters = field.find(|letter: char| !letter.is_ascii_lowercase()).unwrap_or(field.len());
                end += if letters > 0 { letters + 1 } else { 0 };
            }
        }
        self.at += 1 + end;
        Some(Token::Variable(rest[..end].to_owned()))
    }

    /// Skips a character that begins no token.
    fn skip(&mut self, start: usize) {
        let letter = self.peek().unwrap_or(' ');
        self.at += letter.len_utf8();
        let span = Span { start, end: self.at };
        self.findings.push(if letter == '$' {
            Finding::error(
                span,
                "A variable's name has at least two letters or digits, the first a letter; write it so.",
            )
        } else {
            Finding::warning(
                span,
                format!("'{letter}' means nothing here and is skipped, as filebench does; take it out."),
            )
        });
    }
}

fn in_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '/' | '.' | '_' | ':' | ';' | '-')
}

/// The length of the longest variable's name that `text` begins with; 0 when there is none.
fn name_length(text: &str) -> usize {
    let length = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len());
    let name = text[..length].trim_end_matches('_');
    if name.len() >= 2 && name.starts_with(|letter: char| letter.is_ascii_alphabetic()) { name.len() } else { 0 }
}

/// The variable that `text` begins with, without its `$`, and how many bytes it takes.
pub fn first_variable(text: &str) -> Option<(String, usize)> {
    let mut lexer = Lexer { source: text, at: 0, findings: Vec::new() };
    match lexer.peek().filter(|&letter| letter == '$').and_then(|_| lexer.variable()) {
        Some(Token::Variable(name)) => Some((name, lexer.at)),
        _ => None,
    }
}

/// Whether a text is a bare word from its first letter to its last.
pub fn is_word(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '/' || letter == '-')
        && text.chars().all(in_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> Vec<Token> {
        lex(source).0.into_iter().map(|placed| placed.token).collect()
    }

    fn word(text: &str) -> Token {
        Token::Word(text.to_owned())
    }

    #[test]
    fn integers_have_suffixes_of_1024() {
        assert_eq!(
            tokens("7 8k 2m 1g 9223372036854775807"),
            [7, 8192, 2 << 20, 1 << 30, i64::MAX as u64].map(Token::Integer)
        );
        for wrong in ["1K", "1T", "9223372036854775808", "99999999999999999999", "9000000000g"] {
            assert_eq!(lex(wrong).1.len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_word_is_as_long_as_it_can_be() {
        assert_eq!(
            tokens("/tmp/a-b.c:d;e name=x # name=y"),
            [word("/tmp/a-b.c:d;e"), word("name"), Token::Sign('='), word("x")]
        );
        assert_eq!(tokens("-10"), [word("-10")]);
    }

    #[test]
    fn a_hash_inside_a_string_is_no_comment() {
        assert_eq!(tokens("\"a # $b\"#c"), [Token::Quoted("a # $b".to_owned())]);
        assert_eq!(lex("\"open").1.len(), 1);
    }

    #[test]
    fn variables_end_in_a_letter_or_digit() {
        let variable = |name: &str| Token::Variable(name.to_owned());
        assert_eq!(
            tokens("$ab $a_1,$(HOME)${HOME}"),
            [variable("ab"), variable("a_1"), Token::Sign(','), variable("(HOME)"), variable("{HOME}")]
        );
        assert_eq!(tokens("$rv.mean"), [variable("rv.mean")]);
        assert_eq!(tokens("$ab_"), [variable("ab")]);
        for wrong in ["$a", "$1a", "$", "$(a", "$ ab"] {
            assert!(lex(wrong).1.iter().any(|finding| finding.message.starts_with("A variable's name")), "{wrong}");
        }
    }

    #[test]
    fn what_means_nothing_is_skipped() {
        let (tokens, findings) = lex("~/x .5 é");
        assert_eq!(tokens.into_iter().map(|placed| placed.token).collect::<Vec<_>>(), [word("/x"), Token::Integer(5)]);
        assert_eq!(findings.len(), 3);
    }
}
