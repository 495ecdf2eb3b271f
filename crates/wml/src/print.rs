//! Writes a tree as text: reading that text gives the same tree.

use crate::ast::{Assigned, At, Attribute, AttributeValue, Command, FlowopNode, Mode, Operator, Script, Value};
use crate::lexer::is_word;

/// The text of a tree.
#[must_use]
pub fn print(script: &Script) -> String {
    let mut text = String::new();
    for command in &script.commands {
        put_command(&mut text, &command.value, 0);
    }
    text
}

fn put_command(text: &mut String, command: &Command, depth: usize) {
    let margin = "  ".repeat(depth);
    let line = match command {
        Command::Set { variable, to } => format!("set ${}={}", variable.value, assigned(&to.value)),
        Command::SetMode(mode) => {
            let mode = match mode {
                Mode::Timeout => "quit timeout",
                Mode::FirstDone => "quit firstdone",
                Mode::AllDone => "quit alldone",
                Mode::NoUsageStatistics => "nousestats",
            };
            format!("set mode {mode}")
        }
        Command::DefineFileset { single, attributes: given } => {
            format!("define {} {}", if *single { "file" } else { "fileset" }, attributes(given))
        }
        Command::DefineRandvar(given) => format!("define randvar {}", attributes(given)),
        Command::DefinePosset(given) => format!("define posset {}", attributes(given)),
        Command::DefineProcess { attributes: given, threads } => {
            let mut body = format!("define process {} {{\n", attributes(given));
            for thread in threads {
                body.push_str(&format!("{margin}  thread {} {{\n", attributes(&thread.value.attributes)));
                put_flowops(&mut body, &thread.value.flowops, depth + 2);
                body.push_str(&format!("{margin}  }}\n"));
            }
            body + &margin + "}"
        }
        Command::DefineFlowop { attributes: given, flowops } => {
            let mut body = format!("define flowop {} {{\n", attributes(given));
            put_flowops(&mut body, flowops, depth + 1);
            body + &margin + "}"
        }
        Command::Create(what) => format!("create {}", what.value),
        Command::Run(seconds) => format!("run{}", after(seconds.as_ref())),
        Command::Psrun { reset, period, seconds } => {
            let sign = if *reset { " -" } else { "" };
            format!("psrun{sign}{}{}", after(period.as_ref()), after(seconds.as_ref()))
        }
        Command::Eventgen(given) => format!("eventgen {}", attributes(given)),
        Command::Echo(said) => format!("echo \"{}\"", said.value),
        Command::System(said) => format!("system \"{}\"", said.value),
        Command::Usage(said) => format!("usage \"{}\"", said.value),
        Command::Sleep(seconds) => format!("sleep {}", value(&seconds.value)),
        Command::Quit => "quit".to_owned(),
        Command::Version => "version".to_owned(),
        Command::List(what) => format!("list {}", what.value),
        Command::Debug(level) => format!("debug {}", value(&level.value)),
        Command::EnableHistogram => "enable lathist".to_owned(),
        Command::EnableMulti(given) => format!("enable multi {}", attributes(given)),
        Command::MultiSync(given) => format!("domultisync {}", attributes(given)),
        Command::Load(name) => format!("load \"{}\"", name.value),
        Command::Foreach { variable, values, commands } => {
            let values: Vec<String> = values.iter().map(|item| value(&item.value)).collect();
            let mut body = format!("foreach ${} in {} {{\n", variable.value, values.join(", "));
            for command in commands {
                put_command(&mut body, &command.value, depth + 1);
            }
            body + &margin + "}"
        }
        Command::Old { word, arguments } => {
            let arguments: String = arguments.iter().map(|item| format!(" {}", value(&item.value))).collect();
            format!("{word}{arguments}")
        }
    };
    text.push_str(&format!("{margin}{line}\n"));
}

fn put_flowops(text: &mut String, flowops: &[At<FlowopNode>], depth: usize) {
    for flowop in flowops {
        let margin = "  ".repeat(depth);
        text.push_str(&format!(
            "{margin}flowop {} {}\n",
            flowop.value.kind.value,
            attributes(&flowop.value.attributes)
        ));
    }
}

fn after(value_or_none: Option<&At<Value>>) -> String {
    value_or_none.map(|given| format!(" {}", value(&given.value))).unwrap_or_default()
}

fn attributes(given: &[Attribute]) -> String {
    let each: Vec<String> = given
        .iter()
        .map(|attribute| match attribute.value.as_ref().map(|given| &given.value) {
            None => attribute.name.value.clone(),
            Some(AttributeValue::One(one)) => format!("{}={}", attribute.name.value, value(one)),
            Some(AttributeValue::Table(rows)) => {
                let rows: Vec<String> = rows
                    .iter()
                    .map(|[share, low, high]| {
                        format!("{{{}, {}, {}}}", value(&share.value), value(&low.value), value(&high.value))
                    })
                    .collect();
                format!("{}={{{}}}", attribute.name.value, rows.join(", "))
            }
        })
        .collect();
    each.join(",")
}

fn assigned(to: &Assigned) -> String {
    match to {
        Assigned::Value(to) => value(to),
        Assigned::Randvar(given) => format!("randvar({})", attributes(given)),
        Assigned::Cvar(given) => format!("cvar({})", attributes(given)),
        Assigned::Arithmetic(left, operator, right) => {
            let sign = match operator {
                Operator::Plus => '+',
                Operator::Minus => '-',
                Operator::Times => '*',
                Operator::Over => '/',
            };
            format!("{} {sign} {}", value(&left.value), value(&right.value))
        }
    }
}

fn value(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        // A word that would be read as something else is quoted.
        Value::Text(text) if is_word(text) && !text.starts_with(['-', '/']) => match text.as_str() {
            "randvar" | "cvar" | "true" | "false" => format!("\"{text}\""),
            _ => text.clone(),
        },
        Value::Text(text) => format!("\"{text}\""),
        Value::Variable(name) => format!("${name}"),
    }
}
