//! Variables: what they mean when they are used, and the numbers and words that attributes get from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::ast::{Assigned, At, Attribute, AttributeValue, Operator, Value};
use crate::catalogue;
use crate::distribution::{Distribution, Number, Row, Shape, Stream, calculate, table_mean};
use crate::finding::{Finding, Span, known};

/// What a variable is.
#[derive(Debug, Clone, PartialEq)]
pub enum Meaning {
    /// A number, below 0 only as an intermediate result.
    Number(f64),
    /// True or false.
    Boolean(bool),
    /// A string.
    Text(String),
    /// A random variable: its parameters can be changed until it is used.
    Random(RandomParameters),
    /// A custom variable, or what arithmetic with a random one gives.
    Custom(Arc<Distribution>),
}

/// What describes a random variable.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomParameters {
    id: usize,
    kind: String,
    min: f64,
    mean: Option<f64>,
    gamma: f64,
    round: f64,
    seed: f64,
    urandom: bool,
    table: Vec<Row>,
}

/// All variables, by name.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    known: BTreeMap<String, Meaning>,
    of_environment: BTreeSet<String>,
    next_id: usize,
}

/// Variables as a flowop inside a composite one sees them: its local ones first.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub globals: &'a Variables,
    pub locals: Option<&'a BTreeMap<String, Meaning>>,
}

/// The longest integer that a double holds exactly is long enough for every size.
fn to_u64(number: f64, span: Span, findings: &mut Vec<Finding>) -> u64 {
    if number < 0.0 {
        findings
            .push(Finding::error(span, format!("This is {number}, but it cannot be below 0; give another number.")));
    }
    number as u64
}

impl Variables {
    pub fn get(&self, name: &str) -> Option<&Meaning> {
        self.known.get(name)
    }

    pub fn names(&self) -> Vec<&str> {
        self.known.keys().filter(|name| !self.of_environment.contains(*name)).map(String::as_str).collect()
    }

    pub fn put(&mut self, name: &str, meaning: Meaning) {
        self.known.insert(name.to_owned(), meaning);
    }

    pub fn put_from_environment(&mut self, name: &str, meaning: Meaning) {
        self.put(name, meaning);
        self.of_environment.insert(name.to_owned());
    }

    fn new_id(&mut self) -> usize {
        self.next_id += 1;
        self.next_id
    }

    /// What an assignment gives; None when it is reported as wrong.
    pub fn evaluate(&mut self, to: &At<Assigned>, findings: &mut Vec<Finding>) -> Option<Meaning> {
        match &to.value {
            Assigned::Value(value) => self.scope().meaning(&At { value: value.clone(), span: to.span }, findings),
            Assigned::Randvar(attributes) => Some(Meaning::Random(self.random(attributes, to.span, findings))),
            Assigned::Cvar(attributes) => self.custom(attributes, to.span, findings),
            Assigned::Arithmetic(left, operator, right) => self.arithmetic(left, *operator, right, to.span, findings),
        }
    }

    pub fn scope(&self) -> Scope<'_> {
        Scope { globals: self, locals: None }
    }

    fn arithmetic(
        &mut self,
        left: &At<Value>,
        operator: Operator,
        right: &At<Value>,
        span: Span,
        findings: &mut Vec<Finding>,
    ) -> Option<Meaning> {
        let one = self.scope().operand(left, findings)?;
        let other = self.scope().operand(right, findings)?;
        if operator == Operator::Over && other == Operand::Fixed(0.0) {
            findings.push(Finding::error(right.span, "This divides by 0; give another number."));
            return None;
        }
        if let (Operand::Fixed(one), Operand::Fixed(other)) = (&one, &other) {
            let result = calculate(*one, operator, *other);
            // Arithmetic is that of integers.
            return Some(Meaning::Number(result.trunc()));
        }
        let mut number = |operand: Operand, span: Span| match operand {
            Operand::Fixed(number) => Number::Whole(to_u64(number, span, findings)),
            Operand::Random(distribution) => Number::Random(distribution),
        };
        let (left, right) = (number(one, left.span), number(other, right.span));
        let _ = span;
        Some(Meaning::Custom(Arc::new(Distribution {
            id: self.new_id(),
            shape: Shape::Arithmetic { left, operator, right },
            round: 0.0,
            least: Some(0.0),
            most: None,
            stream: Stream::Free,
        })))
    }

    /// A random variable from its attributes.
    pub fn random(&mut self, attributes: &[Attribute], span: Span, findings: &mut Vec<Finding>) -> RandomParameters {
        let mut parameters = RandomParameters {
            id: self.new_id(),
            kind: "gamma".to_owned(),
            min: 0.0,
            mean: None,
            gamma: 1500.0,
            round: 0.0,
            seed: 0.0,
            urandom: false,
            table: Vec::new(),
        };
        for attribute in attributes {
            if attribute.name.value == "name" {
                continue; // 1.4.9: `define randvar name=$v`
            }
            if !catalogue::RANDVAR.contains(&attribute.name.value.as_str()) {
                findings.push(unknown(attribute, "A random variable", catalogue::RANDVAR));
                continue;
            }
            if let Some(At { value: AttributeValue::Table(rows), .. }) = &attribute.value {
                let scope = self.scope();
                let mut cell = |value: &At<Value>| scope.fixed(value, findings).unwrap_or(0.0);
                parameters.table = rows
                    .iter()
                    .map(|[percent, low, high]| Row { percent: cell(percent), low: cell(low), high: cell(high) })
                    .collect();
                continue;
            }
            let value = one(attribute);
            self.scope().put_field(&mut parameters, &attribute.name, &value, findings);
        }
        if !parameters.table.is_empty() {
            // filebench reads nothing else then.
            parameters.kind = "tabular".to_owned();
            (parameters.mean, parameters.seed) = (None, 0.0);
        }
        let sum: f64 = parameters.table.iter().map(|row| row.percent).sum();
        if parameters.kind == "tabular" && sum != 100.0 {
            let message = format!("The percentages of randtable make {sum}, not 100; change them.");
            findings.push(Finding::error(span, message));
        }
        parameters
    }

    /// 1.4.9: `set $name.field=value`.
    pub fn set_field(&mut self, name: &At<String>, field: &str, to: &At<Value>, findings: &mut Vec<Finding>) {
        let Some(Meaning::Random(parameters)) = self.known.get(name.value.as_str()).cloned() else {
            let message = format!("${} is no random variable; define it as one first.", name.value);
            findings.push(Finding::error(name.span, message));
            return;
        };
        let mut parameters = parameters;
        let field = At { value: field.to_owned(), span: name.span };
        if catalogue::RANDVAR.contains(&field.value.as_str()) {
            self.scope().put_field(&mut parameters, &field, to, findings);
            self.known.insert(name.value.clone(), Meaning::Random(parameters));
        } else {
            let message =
                format!("A random variable has no {}: {}.", field.value, known(&field.value, catalogue::RANDVAR));
            findings.push(Finding::error(name.span, message));
        }
    }

    fn custom(&mut self, attributes: &[Attribute], span: Span, findings: &mut Vec<Finding>) -> Option<Meaning> {
        let id = self.new_id();
        let scope = self.scope();
        let (mut kind, mut parameters) = (None, BTreeMap::new());
        let (mut least, mut most, mut round) = (Some(f64::MIN_POSITIVE), None, 0.0);
        let mut parameters_span = span;
        for attribute in attributes {
            let value = one(attribute);
            match attribute.name.value.as_str() {
                "type" => kind = scope.text(&value, findings).map(|text| (text, value.span)),
                "parameters" => {
                    parameters_span = value.span;
                    let text = scope.text(&value, findings)?;
                    for part in text.split(';').filter(|part| !part.is_empty()) {
                        let pair = part.split_once(':');
                        let number = pair.and_then(|(_, number)| number.trim().parse::<f64>().ok());
                        match pair.zip(number.filter(|number| number.is_finite())) {
                            Some(((name, _), number)) => {
                                parameters.insert(name.trim().to_owned(), number);
                            }
                            None => findings.push(Finding::error(
                                value.span,
                                format!("'{part}' is no parameter; write them as mean:16384;gamma:1.5."),
                            )),
                        }
                    }
                }
                "min" => least = Some(scope.fixed(&value, findings)?),
                "max" => most = Some(scope.fixed(&value, findings)?),
                "round" => round = scope.fixed(&value, findings)?,
                _ => findings.push(unknown(attribute, "A custom variable", catalogue::CVAR)),
            }
        }
        let Some((kind, kind_span)) = kind else {
            findings.push(Finding::error(span, "A custom variable needs its type, as type=cvar-gamma; give it."));
            return None;
        };
        let mut parameter = |name: &str, default: f64| parameters.remove(name).unwrap_or(default);
        let shape = match kind.as_str() {
            "cvar-gamma" => {
                let (mean, shape) = (parameter("mean", 4096.0), parameter("gamma", 1.5));
                Shape::Gamma { min: 0.0, mean, shape }
            }
            "cvar-erlang" => {
                Shape::Erlang { shape: parameter("shape", 1.0).max(0.0) as u64, rate: parameter("rate", 1.0) }
            }
            "cvar-exponential" => Shape::Exponential { mean: parameter("mean", 1.0) },
            "cvar-lognormal" => Shape::Lognormal { shape: parameter("shape", 1.0), scale: parameter("scale", 1.0) },
            "cvar-normal" => Shape::Normal { mean: parameter("mean", 0.0), sigma: parameter("sigma", 1.0) },
            "cvar-triangular" => Shape::Triangular {
                lower: parameter("lower", 0.0),
                upper: parameter("upper", 1.0),
                mode: parameter("mode", 0.5),
            },
            "cvar-uniform" => {
                let (lower, upper) = (parameter("lower", 0.0), parameter("upper", 1.0));
                Shape::Even { min: lower, mean: f64::midpoint(lower, upper) }
            }
            "cvar-weibull" => Shape::Weibull { shape: parameter("shape", 1.0), scale: parameter("scale", 1.0) },
            _ => {
                let names = known(&kind, catalogue::CVAR_TYPES);
                findings.push(Finding::error(kind_span, format!("{kind} is no type of a custom variable: {names}.")));
                return None;
            }
        };
        if let Some(name) = parameters.keys().next() {
            let message = format!("{kind} has no parameter {name}; take it out.");
            findings.push(Finding::error(parameters_span, message));
        }
        let stream = if kind == "cvar-gamma" { Stream::Layout } else { Stream::Free };
        Some(Meaning::Custom(Arc::new(Distribution { id, shape, round, least, most, stream })))
    }
}

/// A number of an arithmetic expression.
#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Fixed(f64),
    Random(Arc<Distribution>),
}

impl Scope<'_> {
    fn lookup(&self, name: &str) -> Option<Meaning> {
        if let Some(meaning) = self.locals.and_then(|locals| locals.get(name)) {
            return Some(meaning.clone());
        }
        if let Some(meaning) = self.globals.get(name) {
            return Some(meaning.clone());
        }
        let (base, field) = name.split_once('.')?;
        let Meaning::Random(parameters) = self.globals.get(base)? else { return None };
        match field {
            "min" => Some(Meaning::Number(parameters.min)),
            "mean" => Some(Meaning::Number(parameters.mean())),
            "gamma" => Some(Meaning::Number(parameters.gamma)),
            "round" => Some(Meaning::Number(parameters.round)),
            "seed" => Some(Meaning::Number(parameters.seed)),
            "type" => Some(Meaning::Text(parameters.kind.clone())),
            _ => None,
        }
    }

    /// What a value means now.
    pub fn meaning(&self, value: &At<Value>, findings: &mut Vec<Finding>) -> Option<Meaning> {
        match &value.value {
            Value::Integer(number) => Some(Meaning::Number(*number as f64)),
            Value::Boolean(truth) => Some(Meaning::Boolean(*truth)),
            Value::Text(text) => Some(Meaning::Text(unescape(text))),
            Value::Variable(name) => {
                let meaning = self.lookup(name);
                if let Some(from) = meaning.as_ref().filter(|_| self.globals.of_environment.contains(name)) {
                    let message = format!(
                        "${name} is {} here, from the environment; to have it so everywhere give --set '{name}=VALUE'.",
                        from.shown()
                    );
                    findings.push(Finding::warning(value.span, message));
                }
                if meaning.is_none() {
                    let mut names = self.globals.names();
                    names.extend(self.locals.into_iter().flat_map(|locals| locals.keys().map(String::as_str)));
                    let hint = if name.starts_with(['(', '{']) {
                        format!("give it with --set '{name}=VALUE'")
                    } else {
                        format!("set it before, or give it with --set {name}=VALUE; {}", known(name, &names))
                    };
                    findings.push(Finding::error(value.span, format!("${name} is not set: {hint}.")));
                }
                meaning
            }
        }
    }

    fn operand(&self, value: &At<Value>, findings: &mut Vec<Finding>) -> Option<Operand> {
        match self.meaning(value, findings)? {
            Meaning::Number(number) => Some(Operand::Fixed(number)),
            Meaning::Boolean(truth) => Some(Operand::Fixed(f64::from(u8::from(truth)))),
            Meaning::Random(parameters) => Some(Operand::Random(parameters.distribution())),
            Meaning::Custom(distribution) => Some(Operand::Random(distribution)),
            Meaning::Text(text) => {
                let message = format!("A number belongs here, but this is the text '{text}'; give a number.");
                findings.push(Finding::error(value.span, message));
                None
            }
        }
    }

    /// A number that may be random.
    pub fn number(&self, value: &At<Value>, findings: &mut Vec<Finding>) -> Option<Number> {
        match self.operand(value, findings)? {
            Operand::Fixed(number) => Some(Number::Whole(to_u64(number, value.span, findings))),
            Operand::Random(distribution) => Some(Number::Random(distribution)),
        }
    }

    fn fixed(&self, value: &At<Value>, findings: &mut Vec<Finding>) -> Option<f64> {
        match self.operand(value, findings)? {
            Operand::Fixed(number) => Some(number),
            Operand::Random(_) => {
                findings.push(Finding::error(value.span, "This cannot be random; give a fixed number."));
                None
            }
        }
    }

    /// A number that may not be random.
    pub fn whole(&self, value: &At<Value>, findings: &mut Vec<Finding>) -> Option<u64> {
        let number = self.fixed(value, findings)?;
        Some(to_u64(number, value.span, findings))
    }

    pub fn boolean(&self, value: &At<Value>, findings: &mut Vec<Finding>) -> Option<bool> {
        self.fixed(value, findings).map(|number| number != 0.0)
    }

    pub fn text(&self, value: &At<Value>, findings: &mut Vec<Finding>) -> Option<String> {
        match self.meaning(value, findings)? {
            Meaning::Text(text) => Some(text),
            _ => {
                findings.push(Finding::error(value.span, "A text belongs here; put the value in double quotes."));
                None
            }
        }
    }

    /// A text with its variables put in; one that is not set stays as written, with a warning.
    pub fn substitute(&self, text: &At<String>, findings: &mut Vec<Finding>) -> String {
        let mut result = String::new();
        let mut rest = text.value.as_str();
        while let Some(at) = rest.find(['$', '\\']) {
            result.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("\\$") {
                result.push('$');
                rest = after;
                continue;
            }
            if let Some(after) = rest.strip_prefix("\\n") {
                result.push('\n');
                rest = after;
                continue;
            }
            match crate::lexer::first_variable(rest) {
                Some((name, end)) => {
                    // A point after a name ends a sentence here, unless the field is there.
                    let (name, end) = match name.split_once('.') {
                        Some((base, _)) if self.lookup(&name).is_none() => (base, 1 + base.len()),
                        _ => (name.as_str(), end),
                    };
                    match self.lookup(name) {
                        Some(meaning) => result.push_str(&meaning.shown()),
                        None => {
                            let message = format!("${name} is not set and stays as it is; set it before.");
                            findings.push(Finding::warning(text.span, message));
                            result.push_str(&rest[..end]);
                        }
                    }
                    rest = &rest[end..];
                }
                _ => {
                    result.push_str(&rest[..1]);
                    rest = &rest[1..];
                }
            }
        }
        result + rest
    }

    fn put_field(
        &self,
        parameters: &mut RandomParameters,
        field: &At<String>,
        value: &At<Value>,
        findings: &mut Vec<Finding>,
    ) {
        match field.value.as_str() {
            "type" => {
                if let Some(kind) = self.text(value, findings) {
                    if !["uniform", "gamma", "tabular"].contains(&kind.as_str()) {
                        let names = known(&kind, &["uniform", "gamma", "tabular"]);
                        let message = format!("{kind} is no type of a random variable: {names}.");
                        findings.push(Finding::error(value.span, message));
                    }
                    parameters.kind = kind;
                }
            }
            "randsrc" => {
                if let Some(source) = self.text(value, findings) {
                    if !["rand48", "urandom"].contains(&source.as_str()) {
                        let message = format!("{source} is no source of numbers; give rand48 or urandom.");
                        findings.push(Finding::error(value.span, message));
                    }
                    parameters.urandom = source == "urandom";
                }
            }
            "randtable" => {
                findings.push(Finding::error(value.span, "A table is {{percent, low, high}, ...}; write it so."));
            }
            name => {
                let Some(number) = self.fixed(value, findings) else { return };
                match name {
                    "min" => parameters.min = number,
                    "mean" => parameters.mean = Some(number),
                    "gamma" => parameters.gamma = number,
                    "round" => parameters.round = number,
                    _ => parameters.seed = number,
                }
            }
        }
    }
}

impl RandomParameters {
    fn mean(&self) -> f64 {
        let default = match self.kind.as_str() {
            "tabular" => table_mean(&self.table),
            "gamma" => self.min + self.gamma / 1000.0,
            _ => self.min,
        };
        self.mean.unwrap_or(default)
    }

    fn distribution(&self) -> Arc<Distribution> {
        let (min, mean) = (self.min, self.mean());
        let shape = match self.kind.as_str() {
            "uniform" => Shape::Even { min, mean },
            "tabular" => Shape::Table { rows: self.table.clone(), min, mean },
            _ => Shape::Gamma { min, mean, shape: self.gamma / 1000.0 },
        };
        let stream = if self.urandom { Stream::Free } else { Stream::Own(self.seed as u64) };
        Arc::new(Distribution { id: self.id, shape, round: self.round, least: None, most: None, stream })
    }
}

impl Meaning {
    /// As `echo` shows it.
    fn shown(&self) -> String {
        match self {
            Self::Number(number) => format!("{number}"),
            Self::Boolean(truth) => truth.to_string(),
            Self::Text(text) => text.clone(),
            Self::Random(parameters) => format!("{} with mean {}", parameters.kind, parameters.mean()),
            Self::Custom(distribution) => format!("random with mean {}", distribution.mean()),
        }
    }
}

/// The value of an attribute; a bare one is true.
pub fn one(attribute: &Attribute) -> At<Value> {
    match &attribute.value {
        None => At { value: Value::Boolean(true), span: attribute.name.span },
        Some(At { value: AttributeValue::One(value), span }) => At { value: value.clone(), span: *span },
        // A table in the place of a number: said where the number is asked for.
        Some(At { value: AttributeValue::Table(_), span }) => {
            At { value: Value::Text("a table".to_owned()), span: *span }
        }
    }
}

pub fn unknown(attribute: &Attribute, what: &str, names: &[&str]) -> Finding {
    let name = &attribute.name.value;
    Finding::error(attribute.name.span, format!("{what} has no {name}: {}.", known(name, names)))
}

fn unescape(text: &str) -> String {
    text.replace("\\n", "\n").replace("\\$", "$")
}
