//! Shapes of requests: a device class with selectors besides. Requests of one shape can be given the same devices.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cel::{Attribute, Budget, Device, Error, Expression};
use phalanx_resource::Quantity;
use rustc_hash::FxHashMap;

use crate::diagnosis::clipped;
use crate::event::{DeviceClassInfo, DeviceInfo, DeviceValue};

/// The longest part of an expression that a reason shows, in bytes.
const QUOTE_MAX: usize = 256;

/// Steps that the expressions of a shape may take, to be read and to be evaluated, besides so many for each device. So
/// one that is costly is told to those who ask for it, and does not hold up a cycle.
const STEPS: u64 = 500_000;
pub(super) const STEPS_PER_DEVICE: u64 = 1_000;

/// A shape of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shape {
    pub(super) class: Arc<str>,
    pub(super) selectors: Vec<Arc<str>>,
    /// Requests of claims that pods name, by their namespace.
    pub(super) users: BTreeMap<Arc<str>, u32>,
    /// Distinguishes it from an earlier one with the same number.
    pub serial: u64,
    /// What selects devices, or why nothing can; `None` before it is read.
    pub(super) selects: Option<Result<Vec<Expression>, Arc<str>>>,
    /// Steps that are left of those it may take.
    steps: u64,
    /// What an expression made of a device that it does not go with.
    pub(super) failure: Option<Arc<str>>,
    /// Which devices would be good for it and are given to nobody.
    pub(super) left_out: Option<Arc<str>>,
    /// There are such devices on single nodes: then others do not count.
    pub(super) local: bool,
    /// All such devices can be used everywhere.
    pub(super) everywhere: bool,
}

impl Shape {
    pub(super) fn new(class: &Arc<str>, selectors: &[Arc<str>], serial: u64) -> Self {
        let (class, selectors) = (class.clone(), selectors.to_vec());
        Self { class, selectors, serial, steps: STEPS, ..Self::default() }
    }

    /// Whether a claim that pods name is of it.
    pub(super) fn is_used(&self) -> bool {
        !self.users.is_empty()
    }

    /// The namespace that pays for its expressions: of those that use it, the one that spent the least so far.
    pub(super) fn payer(&self, spent: &FxHashMap<Arc<str>, u64>) -> Option<Arc<str>> {
        self.users.keys().min_by_key(|namespace| spent.get(*namespace)).cloned()
    }

    /// Its class is another one now: what it selects is worked out anew.
    pub(super) fn forget(&mut self) {
        (self.selects, self.failure, self.steps) = (None, None, STEPS);
    }

    /// Reads the expressions, unless they were read; in how many steps.
    pub(super) fn read(&mut self, class: Option<&DeviceClassInfo>) -> u64 {
        if self.selects.is_some() {
            return 0;
        }
        let before = self.steps;
        self.within_steps(|shape, budget| shape.selects = Some(shape.expressions(class, budget)));
        before - self.steps
    }

    fn expressions(
        &self,
        class: Option<&DeviceClassInfo>,
        budget: &mut Budget,
    ) -> Result<Vec<Expression>, Arc<str>> {
        let class = class.ok_or_else(|| format!("device class {} does not exist", self.class))?;
        let all = class.selectors.iter().chain(&self.selectors);
        all.map(|text| Expression::parse(text, budget).map_err(|error| unreadable(text, &error))).collect()
    }

    /// Why nothing can be selected.
    pub(super) fn problem(&self) -> Option<&Arc<str>> {
        self.selects.as_ref()?.as_ref().err()
    }

    /// Runs what asks whether it selects devices, within the steps that are left.
    pub(super) fn within_steps(&mut self, run: impl FnOnce(&mut Self, &mut Budget)) {
        let mut budget = Budget::new(self.steps);
        run(self, &mut budget);
        self.steps = budget.left();
    }

    /// Whether a device of a driver will do.
    pub(super) fn takes(&mut self, driver: &str, device: &DeviceInfo, budget: &mut Budget) -> bool {
        self.selects(driver, device, budget).unwrap_or_else(|error| {
            self.failure.get_or_insert_with(|| failure(&device.name, &error));
            false
        })
    }

    /// Whether all its expressions select a device of a driver.
    pub(super) fn selects(
        &mut self,
        driver: &str,
        device: &DeviceInfo,
        budget: &mut Budget,
    ) -> Result<bool, Error> {
        let Some(Ok(expressions)) = &self.selects else { return Ok(false) };
        let view = View { driver, device };
        budget.add(STEPS_PER_DEVICE);
        let mut each = expressions.iter().map(|expression| expression.selects(&view, budget));
        let selects = each.find(|selects| selects != &Ok(true)).unwrap_or(Ok(true));
        if budget.left() == 0 {
            let problem = format!(
                "its CEL expressions take too many steps, expected at most {STEPS_PER_DEVICE} for a device"
            );
            self.selects = Some(Err(problem.into()));
        }
        selects
    }
}

fn unreadable(text: &str, error: &Error) -> Arc<str> {
    let error = error.to_string();
    format!("CEL expression {:?}: {}", clipped(text, QUOTE_MAX), clipped(&error, QUOTE_MAX)).into()
}

fn failure(device: &str, error: &Error) -> Arc<str> {
    format!("a CEL expression does not go with device {device}: {error}").into()
}

/// A device as expressions see it.
struct View<'a> {
    driver: &'a str,
    device: &'a DeviceInfo,
}

impl View<'_> {
    fn find<'l, T>(&self, list: &'l [(Arc<str>, T)], domain: &str, name: &str) -> Option<&'l T> {
        let is = |full: &str| match full.split_once('/') {
            Some((of, short)) => of == domain && short == name,
            None => self.driver == domain && full == name,
        };
        list.iter().find(|(full, _)| is(full)).map(|(_, value)| value)
    }

    fn names<'a, T>(&'a self, list: &'a [(Arc<str>, T)]) -> Vec<(&'a str, &'a str)> {
        list.iter().map(|(full, _)| full.split_once('/').unwrap_or((self.driver, full))).collect()
    }
}

impl Device for View<'_> {
    fn driver(&self) -> &str {
        self.driver
    }

    fn attribute(&self, domain: &str, name: &str) -> Option<Attribute<'_>> {
        Some(match self.find(&self.device.attributes, domain, name)? {
            DeviceValue::Bool(value) => Attribute::Bool(*value),
            DeviceValue::Int(value) => Attribute::Int(*value),
            DeviceValue::Text(value) => Attribute::Text(value),
            DeviceValue::Version(value) => Attribute::Version(value),
        })
    }

    fn capacity(&self, domain: &str, name: &str) -> Option<Quantity> {
        self.find(&self.device.capacity, domain, name).copied()
    }

    fn attributes(&self) -> Vec<(&str, &str)> {
        self.names(&self.device.attributes)
    }

    fn capacities(&self) -> Vec<(&str, &str)> {
        self.names(&self.device.capacity)
    }
}
