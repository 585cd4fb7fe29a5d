//! Macros over the items of a list, the keys of a map, and the value of an optional.
use crate::Error;
use crate::eval::Scope;
use crate::parse::{Expr, Macro};
use crate::value::{Answer, Value, wrong};

impl<'a> Scope<'a, '_> {
    pub(crate) fn over(&mut self, found: Macro, of: Value, name: &'a str, parts: &'a [Expr]) -> Answer {
        match (found, of) {
            (Macro::OptMap | Macro::OptFlatMap, Value::Optional(None)) => Ok(Value::Optional(None)),
            (Macro::OptMap, Value::Optional(Some(value))) => {
                self.with(name, *value, &parts[0]).map(|value| Value::Optional(Some(Box::new(value))))
            }
            (Macro::OptFlatMap, Value::Optional(Some(value))) => match self.with(name, *value, &parts[0])? {
                value @ Value::Optional(_) => Ok(value),
                other => wrong(format!("found {}, expected an optional", other.kind())),
            },
            (Macro::OptMap | Macro::OptFlatMap, other) => {
                wrong(format!("found {}, expected an optional", other.kind()))
            }
            (found, of) => {
                let items = self.items(of)?;
                self.over_items(found, items, name, parts)
            }
        }
    }

    fn over_items(&mut self, found: Macro, items: Vec<Value>, name: &'a str, parts: &'a [Expr]) -> Answer {
        match found {
            Macro::All => self.any(items, name, &parts[0], false).map(|any| Value::Bool(!any)),
            Macro::Exists => self.any(items, name, &parts[0], true).map(Value::Bool),
            Macro::ExistsOne => {
                let mut count = 0;
                for item in items {
                    count += usize::from(self.holds(name, item, &parts[0])?);
                }
                Ok(Value::Bool(count == 1))
            }
            Macro::Filter => {
                let mut list = Vec::new();
                for item in items {
                    self.budget.charge(item.measure().0)?;
                    if self.holds(name, item.clone(), &parts[0])? {
                        list.push(item);
                    }
                }
                Ok(Value::List(list))
            }
            _ => self.map(items, name, parts),
        }
    }

    /// The last argument maps each item; one before it filters the items.
    fn map(&mut self, items: Vec<Value>, name: &'a str, parts: &'a [Expr]) -> Answer {
        let (made, conditions) =
            parts.split_last().ok_or_else(|| Error("map needs an expression".to_owned()))?;
        let mut list = Vec::new();
        for item in items {
            let mut taken = true;
            for condition in conditions {
                self.budget.charge(item.measure().0)?;
                taken = self.holds(name, item.clone(), condition)?;
            }
            if taken {
                list.push(self.with(name, item, made)?);
            }
        }
        Ok(Value::List(list))
    }

    /// Whether the body has the wanted value for some item. One such item is enough, whatever errors other items have.
    fn any(&mut self, items: Vec<Value>, name: &'a str, body: &'a Expr, wanted: bool) -> Result<bool, Error> {
        let mut fault = None;
        for item in items {
            match self.holds(name, item, body) {
                Ok(found) if found == wanted => return Ok(true),
                Ok(_) => {}
                Err(error) => fault = fault.or(Some(error)),
            }
            self.budget.charge(1)?;
        }
        fault.map_or(Ok(false), Err)
    }

    /// Of a list, or the keys of a map.
    fn items(&mut self, of: Value) -> Result<Vec<Value>, Error> {
        match of {
            Value::List(list) => Ok(list),
            Value::Map(fields) => Ok(fields.keys().cloned().map(Value::Text).collect()),
            map => match self.keys(&map)? {
                Some(keys) => Ok(keys.into_iter().map(|key| Value::Text(key.to_owned())).collect()),
                None => wrong(format!("found {}, expected a list or a map", map.kind())),
            },
        }
    }

    /// The keys of a map; `None` of anything else.
    pub(crate) fn keys(&mut self, of: &Value) -> Result<Option<Vec<&'a str>>, Error> {
        let device = self.device;
        let (all, domain) = match of {
            Value::Attributes => (device.attributes(), None),
            Value::Capacities => (device.capacities(), None),
            Value::AttributesOf(domain) => (device.attributes(), Some(domain)),
            Value::CapacitiesOf(domain) => (device.capacities(), Some(domain)),
            _ => return Ok(None),
        };
        self.budget.charge(all.len() as u64)?;
        let Some(domain) = domain else {
            let mut domains: Vec<&str> = all.into_iter().map(|(domain, _)| domain).collect();
            domains.sort_unstable();
            domains.dedup();
            return Ok(Some(domains));
        };
        Ok(Some(all.into_iter().filter(|(of, _)| of == domain).map(|(_, name)| name).collect()))
    }
}
