//! Reads a text into a tree. By hand, one method per rule: the messages speak of the language and not of tokens, name what
//! is known, stand at their place, and come all at once, because after a mistake reading goes on at the next command.

use crate::ast::{
    Assigned, At, Attribute, AttributeValue, Command, FlowopNode, Mode, Operator, Script, ThreadNode, Value,
};
use crate::catalogue;
use crate::finding::{Finding, Span, known};
use crate::lexer::{Placed, Token, lex};

/// The deepest that commands stand in each other, so that no text can use up the stack.
const DEEPEST: usize = 16;

/// The tree of a text, and everything that is wrong with its form. With an error among the findings the tree is of what
/// could be read.
#[must_use]
pub fn parse(source: &str) -> (Script, Vec<Finding>) {
    let (tokens, findings) = lex(source);
    let mut parser = Parser { tokens, at: 0, end: source.len(), findings, depth: 0 };
    let mut commands = Vec::new();
    while parser.peek().is_some() {
        if let Some(command) = parser.recovering(Parser::command) {
            commands.push(command);
        }
    }
    parser.findings.sort_by_key(|finding| finding.span);
    (Script { commands }, parser.findings)
}

/// What could not be read is reported already.
struct Broken;

type Read<T> = Result<T, Broken>;

struct Parser {
    tokens: Vec<Placed>,
    at: usize,
    end: usize,
    findings: Vec<Finding>,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|placed| &placed.token)
    }

    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or(Span { start: self.end, end: self.end }, |placed| placed.span)
    }

    fn last_span(&self) -> Span {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(Span::default(), |placed| placed.span)
    }

    fn next(&mut self) -> Option<Placed> {
        let token = self.tokens.get(self.at).cloned();
        self.at += usize::from(token.is_some());
        token
    }

    fn word(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn sign(&mut self, sign: char) -> bool {
        let found = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn fail<T>(&mut self, message: impl Into<String>) -> Read<T> {
        let span = self.span();
        self.findings.push(Finding::error(span, message));
        Err(Broken)
    }

    fn expected<T>(&mut self, what: &str) -> Read<T> {
        let found = self.found();
        self.fail(format!("Here stands {found}, but {what} belongs here; put it in."))
    }

    fn found(&self) -> String {
        match self.peek() {
            None => "the end of the file".to_owned(),
            Some(Token::Integer(number)) => format!("the number {number}"),
            Some(Token::Word(word)) => format!("'{word}'"),
            Some(Token::Quoted(_)) => "a string".to_owned(),
            Some(Token::Variable(name)) => format!("the variable ${name}"),
            Some(Token::Sign(sign)) => format!("'{sign}'"),
        }
    }

    fn expect(&mut self, sign: char, what: &str) -> Read<()> {
        if self.sign(sign) { Ok(()) } else { self.expected(what) }
    }

    /// Reads one thing; after a mistake goes on at the next line that begins with a command, or at a brace's end.
    fn recovering<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Option<At<T>> {
        let (before, start) = (self.at, self.span());
        match read(self) {
            Ok(value) => Some(At { value, span: start.to(self.last_span()) }),
            Err(Broken) => {
                self.at = self.at.max(before + 1);
                let inside = self.depth > 0;
                while let Some(placed) = self.tokens.get(self.at) {
                    let begins = placed.first_of_line
                        && matches!(&placed.token, Token::Word(word) if begins_something(word, inside));
                    if begins || (inside && placed.token == Token::Sign('}')) {
                        break;
                    }
                    self.at += 1;
                }
                None
            }
        }
    }

    /// `{` things `}`
    fn braces<T>(&mut self, what: &str, mut read: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<At<T>>> {
        let of_commands = what == "commands";
        let open = self.span();
        self.expect('{', &format!("'{{' with {what} inside"))?;
        if self.depth >= DEEPEST {
            return self.fail("This stands too deep in others; write it flatter.");
        }
        self.depth += 1;
        let mut things = Vec::new();
        let mut closed = false;
        while !closed {
            match self.peek() {
                None => break,
                Some(Token::Sign('}')) => {
                    self.at += 1;
                    closed = true;
                }
                // A closing brace was forgotten: what follows is not lost.
                Some(Token::Word(word)) if !of_commands && (word == "define" || word == "run") => break,
                Some(_) => things.extend(self.recovering(&mut read)),
            }
        }
        self.depth -= 1;
        if !closed {
            self.findings.push(Finding::error(open, format!("This '{{' is not closed; put a '}}' after {what}.")));
        }
        Ok(things)
    }

    fn command(&mut self) -> Read<Command> {
        let Some(word) = self.word().map(str::to_owned) else { return self.expected("a command") };
        let at = self.span();
        self.at += 1;
        match word.as_str() {
            "set" => self.set(),
            "define" => self.define(),
            "create" => {
                let what = self.plain_word("files")?;
                if ["files", "filesets", "fileset", "processes"].contains(&what.value.as_str()) {
                    Ok(Command::Create(what))
                } else {
                    self.at -= 1;
                    self.expected("files")
                }
            }
            "run" => Ok(Command::Run(self.optional_number())),
            "psrun" => Ok(self.psrun()),
            "eventgen" => Ok(Command::Eventgen(self.attributes()?)),
            "echo" => Ok(Command::Echo(self.string("a text in double quotes")?)),
            "usage" => Ok(Command::Usage(self.string("a text in double quotes")?)),
            "system" => Ok(Command::System(self.string("a command in double quotes")?)),
            "sleep" => Ok(Command::Sleep(self.value("a number of seconds")?)),
            "quit" => Ok(Command::Quit),
            "version" => Ok(Command::Version),
            "list" => {
                let what = self.plain_word("fileset or flowop")?;
                Ok(Command::List(what))
            }
            "debug" => Ok(Command::Debug(self.value("a level from 0 to 10")?)),
            "enable" => match self.word() {
                Some("lathist") => {
                    self.at += 1;
                    Ok(Command::EnableHistogram)
                }
                Some("multi") => {
                    self.at += 1;
                    Ok(Command::EnableMulti(self.attributes()?))
                }
                _ => self.expected("lathist or multi"),
            },
            "domultisync" => Ok(Command::MultiSync(self.attributes()?)),
            "load" => Ok(Command::Load(self.string("the name of a file")?)),
            "foreach" => self.foreach(),
            word if catalogue::COMMANDS_OLD.contains(&word) => {
                let mut arguments = Vec::new();
                while !self.tokens.get(self.at).is_none_or(|placed| placed.first_of_line) {
                    arguments.push(self.value("a word")?);
                }
                Ok(Command::Old { word: word.to_owned(), arguments })
            }
            _ => {
                let message = match word.as_str() {
                    "thread" | "flowop" => format!("A {word} stands inside a process; put it there."),
                    _ => format!("'{word}' is no command: {}.", known(&word, catalogue::COMMANDS)),
                };
                self.findings.push(Finding::error(at, message));
                Err(Broken)
            }
        }
    }

    fn set(&mut self) -> Read<Command> {
        if self.word() == Some("mode") {
            self.at += 1;
            return self.set_mode();
        }
        let Some(Token::Variable(name)) = self.peek().cloned() else {
            return self.expected("a variable as $name, or mode");
        };
        let variable = At { value: name, span: self.span() };
        self.at += 1;
        self.expect('=', "'='")?;
        let start = self.span();
        let value = self.assigned()?;
        Ok(Command::Set { variable, to: At { value, span: start.to(self.last_span()) } })
    }

    fn assigned(&mut self) -> Read<Assigned> {
        let random = self.word().map(str::to_owned).filter(|word| word == "randvar" || word == "cvar");
        let bracket = self.tokens.get(self.at + 1).is_some_and(|placed| placed.token == Token::Sign('('));
        if let Some(word) = random.filter(|_| bracket) {
            self.at += 2;
            let attributes = self.attributes()?;
            self.expect(')', "',' or ')'")?;
            return Ok(if word == "cvar" { Assigned::Cvar(attributes) } else { Assigned::Randvar(attributes) });
        }
        let left = self.value("a value")?;
        match self.operator() {
            Some(operator) => Ok(Assigned::Arithmetic(left, operator, self.value("a number or a variable")?)),
            None => Ok(Assigned::Value(left.value)),
        }
    }

    /// An operator on the same line. `-` and `/` begin bare words: what follows the sign then stays.
    fn operator(&mut self) -> Option<Operator> {
        let placed = self.tokens.get(self.at).filter(|placed| !placed.first_of_line)?;
        let operator = match &placed.token {
            Token::Sign('+') => Operator::Plus,
            Token::Sign('*') => Operator::Times,
            Token::Word(word) => {
                let operator = if word.starts_with('-') { Operator::Minus } else { Operator::Over };
                let rest = word.strip_prefix(['-', '/'])?;
                if !rest.is_empty() {
                    let (tokens, _) = lex(rest);
                    let [Placed { token: token @ Token::Integer(_), .. }] = tokens.as_slice() else { return None };
                    let (token, span) = (token.clone(), Span { start: placed.span.start + 1, end: placed.span.end });
                    self.tokens[self.at] = Placed { token, span, first_of_line: false };
                    return Some(operator);
                }
                operator
            }
            _ => return None,
        };
        self.at += 1;
        Some(operator)
    }

    fn set_mode(&mut self) -> Read<Command> {
        let mode = match self.word() {
            Some("nousestats") => Mode::NoUsageStatistics,
            Some("quit") => {
                self.at += 1;
                match self.word() {
                    Some("timeout") => Mode::Timeout,
                    Some("firstdone") => Mode::FirstDone,
                    Some("alldone") => Mode::AllDone,
                    _ => return self.expected("timeout, firstdone or alldone"),
                }
            }
            _ => return self.expected("quit or nousestats"),
        };
        self.at += 1;
        Ok(Command::SetMode(mode))
    }

    fn define(&mut self) -> Read<Command> {
        let Some(what) = self.word().map(str::to_owned) else { return self.expected("what to define") };
        self.at += 1;
        match what.as_str() {
            "file" | "fileset" => Ok(Command::DefineFileset { single: what == "file", attributes: self.attributes()? }),
            "randvar" => Ok(Command::DefineRandvar(self.attributes()?)),
            "posset" => Ok(Command::DefinePosset(self.attributes()?)),
            "process" => {
                let attributes = self.attributes()?;
                Ok(Command::DefineProcess { attributes, threads: self.braces("its threads", Self::thread)? })
            }
            "flowop" => {
                let attributes = self.attributes()?;
                Ok(Command::DefineFlowop { attributes, flowops: self.braces("its flowops", Self::flowop)? })
            }
            _ => {
                self.at -= 1;
                let names = known(&what, &["file", "fileset", "process", "flowop"]);
                self.fail(format!("'{what}' cannot be defined: {names}."))
            }
        }
    }

    fn thread(&mut self) -> Read<ThreadNode> {
        if self.word() != Some("thread") {
            return self.expected("a thread, or the '}' of the process,");
        }
        self.at += 1;
        let attributes = self.attributes()?;
        Ok(ThreadNode { attributes, flowops: self.braces("its flowops", Self::flowop)? })
    }

    fn flowop(&mut self) -> Read<FlowopNode> {
        if self.word() != Some("flowop") {
            return self.expected("a flowop, or the '}' after the last,");
        }
        self.at += 1;
        let kind = self.plain_word("the type of a flowop")?;
        Ok(FlowopNode { kind, attributes: self.attributes()? })
    }

    fn foreach(&mut self) -> Read<Command> {
        let Some(Token::Variable(name)) = self.peek().cloned() else { return self.expected("a variable as $name") };
        let variable = At { value: name, span: self.span() };
        self.at += 1;
        if self.word() != Some("in") {
            return self.expected("'in'");
        }
        self.at += 1;
        let mut values = vec![self.value("a value")?];
        while self.sign(',') {
            values.push(self.value("a value")?);
        }
        Ok(Command::Foreach { variable, values, commands: self.braces("commands", Self::command)? })
    }

    fn psrun(&mut self) -> Command {
        let mut reset = false;
        if let Some(Token::Word(word)) = self.peek() {
            // The only place for a negative number.
            if let [Placed { token: token @ Token::Integer(_), .. }] = lex(word.trim_start_matches('-')).0.as_slice() {
                reset = word.starts_with('-');
                self.tokens[self.at].token = token.clone();
            } else if word == "-" {
                reset = true;
                self.at += 1;
            }
        }
        let period = self.optional_number();
        let seconds = if period.is_some() { self.optional_number() } else { None };
        Command::Psrun { reset, period, seconds }
    }

    fn optional_number(&mut self) -> Option<At<Value>> {
        match self.peek() {
            Some(Token::Integer(_) | Token::Variable(_)) => self.value("a number").ok(),
            _ => None,
        }
    }

    fn plain_word(&mut self, what: &str) -> Read<At<String>> {
        match self.peek().cloned() {
            Some(Token::Word(value)) => {
                let span = self.span();
                self.at += 1;
                Ok(At { value, span })
            }
            _ => self.expected(what),
        }
    }

    fn string(&mut self, what: &str) -> Read<At<String>> {
        let span = self.span();
        match self.peek().cloned() {
            Some(Token::Word(value) | Token::Quoted(value)) => {
                self.at += 1;
                Ok(At { value, span })
            }
            _ => self.expected(what),
        }
    }

    fn value(&mut self, what: &str) -> Read<At<Value>> {
        let span = self.span();
        let value = match self.peek().cloned() {
            Some(Token::Integer(number)) => Value::Integer(number),
            Some(Token::Word(word)) => match word.as_str() {
                "true" => Value::Boolean(true),
                "false" => Value::Boolean(false),
                _ => Value::Text(word),
            },
            Some(Token::Quoted(text)) => Value::Text(text),
            Some(Token::Variable(name)) => Value::Variable(name),
            Some(Token::Sign(_)) | None => return self.expected(what),
        };
        self.next();
        Ok(At { value, span })
    }

    /// `name=value, name, ...`, at least one.
    fn attributes(&mut self) -> Read<Vec<Attribute>> {
        let mut attributes = vec![self.attribute()?];
        while self.sign(',') {
            attributes.push(self.attribute()?);
        }
        Ok(attributes)
    }

    fn attribute(&mut self) -> Read<Attribute> {
        let span = self.span();
        let name = match self.peek().cloned() {
            Some(Token::Word(word)) => word,
            Some(Token::Variable(name)) => format!("${name}"),
            _ => return self.expected("the name of an attribute"),
        };
        self.at += 1;
        let value = if self.sign('=') {
            let start = self.span();
            let value = if self.peek() == Some(&Token::Sign('{')) {
                AttributeValue::Table(self.table()?)
            } else {
                AttributeValue::One(self.value("a value")?.value)
            };
            Some(At { value, span: start.to(self.last_span()) })
        } else {
            None
        };
        Ok(Attribute { name: At { value: name, span }, value })
    }

    /// `{{percent, low, high}, ...}`
    fn table(&mut self) -> Read<Vec<[At<Value>; 3]>> {
        self.expect('{', "'{'")?;
        let mut rows = Vec::new();
        loop {
            self.expect('{', "'{percent, low, high}'")?;
            let share = self.value("a percentage")?;
            self.expect(',', "','")?;
            let low = self.value("a number")?;
            self.expect(',', "','")?;
            let high = self.value("a number")?;
            self.expect('}', "'}'")?;
            rows.push([share, low, high]);
            if !self.sign(',') {
                break;
            }
        }
        self.expect('}', "',' or '}'")?;
        Ok(rows)
    }
}

fn begins_something(word: &str, inside: bool) -> bool {
    catalogue::COMMANDS.contains(&word)
        || catalogue::COMMANDS_OLD.contains(&word)
        || (inside && (word == "thread" || word == "flowop"))
}
