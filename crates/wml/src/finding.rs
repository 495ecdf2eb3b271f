//! What is wrong, or worth knowing, about a text: where, and what to do.

use std::collections::HashSet;

/// A part of a text: bytes from `start` up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// From the start of `self` to the end of `other`.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start, end: other.end.max(self.start) }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The program cannot run.
    Error,
    /// The program runs, but perhaps not as its author meant.
    Warning,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Where.
    pub span: Span,
    /// A sentence that ends with the next thing to do.
    pub message: String,
}

impl Finding {
    pub(crate) fn error(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, span, message: message.into() }
    }

    pub(crate) fn warning(span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, span, message: message.into() }
    }
}

/// By how many letters a word differs at most from the one that was perhaps meant.
const MEANT: usize = 2;
/// As many known names a sentence gives.
const NAMED: usize = 50;
/// As many findings as a person reads; a file that is no program at all has thousands.
const MOST_SHOWN: usize = 200;
/// How many characters of a line are shown before and after the start of a place.
const AROUND: usize = 120;

/// The findings as text, each with its line, its column (in characters, from 1) and a caret under the place. Of very many
/// the first errors are shown, and how many more there are.
#[must_use]
pub fn render(name: &str, source: &str, findings: &[Finding]) -> String {
    let mut text = String::new();
    let many = findings.len() > MOST_SHOWN;
    let errors = findings.iter().any(|finding| finding.severity == Severity::Error);
    let wanted = |finding: &&Finding| !many || !errors || finding.severity == Severity::Error;
    let mut shown_count = 0;
    for finding in findings.iter().filter(wanted).take(MOST_SHOWN) {
        shown_count += 1;
        let start = floor(source, finding.span.start);
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = source[start..].find('\n').map_or(source.len(), |at| start + at);
        let line = source[..line_start].matches('\n').count() + 1;
        let column = source[line_start..start].chars().count() + 1;
        let end = floor(source, finding.span.end).clamp(start, line_end);
        let carets = source[start..end].chars().count().max(1);
        let what = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        // Of a long line the part around the place.
        let before = source[line_start..start].char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
        let after = source[start..line_end].char_indices().nth(AROUND).map_or(line_end, |(at, _)| start + at);
        let shown: String = source[line_start + before..after]
            .chars()
            .map(|letter| if letter.is_control() { ' ' } else { letter })
            .collect();
        let indent = source[line_start + before..start].chars().count();
        text.push_str(&format!("{name}:{line}:{column}: {what}: {}\n", finding.message));
        text.push_str(&format!("{line:5} | {shown}\n"));
        text.push_str(&format!("      | {}{}\n", " ".repeat(indent), "^".repeat(carets.min(AROUND))));
    }
    if shown_count < findings.len() {
        let more = findings.len() - shown_count;
        text.push_str(&format!("{name}: {more} more findings are not shown; change these first.\n"));
    }
    text
}

/// The start of the character that `at` is in.
fn floor(source: &str, at: usize) -> usize {
    let mut at = at.min(source.len());
    while !source.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// The known names in a sentence, each once and the one that was perhaps meant first. Of very many the first are named:
/// a program may have tens of thousands.
pub(crate) fn known(wrong: &str, names: &[&str]) -> String {
    let mut seen = HashSet::new();
    let names: Vec<&str> = names.iter().copied().filter(|name| seen.insert(*name)).collect();
    // Words whose lengths differ by more are not looked at letter by letter: a word may be as long as the text.
    let length = wrong.chars().count();
    let near = names
        .iter()
        .filter(|name| name.chars().count().abs_diff(length) <= MEANT)
        .map(|name| (distance(wrong, name), name))
        .filter(|(letters, _)| *letters <= MEANT)
        .min_by_key(|(letters, _)| *letters)
        .map(|(_, name)| name);
    let mut listed = names[..names.len().min(NAMED)].join(", ");
    if names.len() > NAMED {
        listed.push_str(&format!(" and {} more", names.len() - NAMED));
    }
    match near {
        Some(name) => format!("did you mean {name}? Known are {listed}"),
        None if names.is_empty() => "there is none".to_owned(),
        None => format!("known are {listed}"),
    }
}

/// How many letters have to be changed, put in or taken out to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &other_letter) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != other_letter);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_shown_at_its_place() {
        let source = "set $a=1\nset $bö=~2\n";
        let at = source.find('~').expect("is there");
        let shown = render("x.f", source, &[Finding::error(Span { start: at, end: at + 2 }, "no.")]);
        assert_eq!(shown, "x.f:2:9: error: no.\n    2 | set $bö=~2\n      |         ^^\n");
    }

    #[test]
    fn of_many_names_the_first_are_given_each_once() {
        let names: Vec<String> = (0..300).map(|number| format!("name-{:03}", number / 2)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let said = known("other", &names);
        assert!(said.starts_with("known are name-000, name-001, "), "{said}");
        assert!(said.ends_with("name-049 and 100 more"), "{said}");
        assert_eq!(known("nane-149", &names[..2]), "known are name-000");
    }

    #[test]
    fn a_place_outside_the_text_is_its_end() {
        let shown = render("x.f", "run", &[Finding::warning(Span { start: 90, end: 100 }, "no.")]);
        assert_eq!(shown, "x.f:1:4: warning: no.\n    1 | run\n      |    ^\n");
        assert!(render("x.f", "ö", &[Finding::warning(Span { start: 1, end: 1 }, "no.")]).contains("x.f:1:1"));
    }

    #[test]
    fn what_is_no_program_is_told_of_in_a_few_lines() {
        let source = "~".repeat(100_000);
        let mut findings: Vec<Finding> =
            (0..100_000).map(|at| Finding::warning(Span { start: at, end: at + 1 }, "no.")).collect();
        findings.push(Finding::error(Span { start: 99_999, end: 100_000 }, "wrong."));
        let shown = render("x.f", &source, &findings);
        assert!(shown.starts_with("x.f:1:100000: error: wrong.\n"), "{}", &shown[..200]);
        assert!(shown.ends_with("x.f: 100000 more findings are not shown; change these first.\n"));
        assert!(shown.len() < 1000, "{}", shown.len());
        findings.pop();
        let shown = render("x.f", &source, &findings);
        assert_eq!(shown.matches(": warning: no.").count(), MOST_SHOWN);
        assert!(shown.len() < MOST_SHOWN * 500, "{}", shown.len());
    }

    #[test]
    fn the_nearest_name_comes_first() {
        assert!(known("iosise", &["name", "iosize"]).starts_with("did you mean iosize?"));
        assert_eq!(known("zzzzzz", &["name", "iosize"]), "known are name, iosize");
    }
}
