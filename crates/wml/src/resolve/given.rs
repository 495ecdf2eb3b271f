//! The attributes of one thing, read.

use crate::ast::Attribute;
use crate::distribution::Number;
use crate::finding::Finding;
use crate::variables::{Meaning, Scope, one};

/// The attributes of one thing; of two with the same name the last counts.
pub(super) struct Given<'a> {
    pub(super) attributes: &'a [Attribute],
    pub(super) scope: Scope<'a>,
}

impl Given<'_> {
    pub(super) fn find(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().rev().find(|attribute| attribute.name.value == name)
    }

    /// Whether `one` stands after `other`, or alone.
    pub(super) fn last_of(&self, one: &str, other: &str) -> bool {
        let last = self.attributes.iter().rev().find(|given| given.name.value == one || given.name.value == other);
        last.is_some_and(|given| given.name.value == one)
    }

    pub(super) fn number(&self, name: &str, findings: &mut Vec<Finding>) -> Option<Number> {
        self.find(name).and_then(|attribute| self.scope.number(&one(attribute), findings))
    }

    pub(super) fn whole(&self, name: &str, findings: &mut Vec<Finding>) -> Option<u64> {
        self.find(name).and_then(|attribute| self.scope.whole(&one(attribute), findings))
    }

    pub(super) fn boolean(&self, name: &str, findings: &mut Vec<Finding>) -> bool {
        self.find(name).and_then(|attribute| self.scope.boolean(&one(attribute), findings)).unwrap_or(false)
    }

    pub(super) fn text(&self, name: &str, findings: &mut Vec<Finding>) -> Option<String> {
        self.find(name).and_then(|attribute| self.scope.text(&one(attribute), findings))
    }

    /// A percentage; true is 100, false is 0.
    pub(super) fn percent(&self, name: &str, findings: &mut Vec<Finding>) -> u64 {
        let Some(attribute) = self.find(name) else { return 0 };
        let value = one(attribute);
        match self.scope.meaning(&value, &mut Vec::new()) {
            Some(Meaning::Boolean(truth)) => u64::from(truth) * 100,
            _ => {
                let percent = self.scope.whole(&value, findings).unwrap_or(0);
                if percent > 100 {
                    findings.push(Finding::error(value.span, "This is a percentage; give 0 to 100."));
                }
                percent
            }
        }
    }
}
