//! The evaluation of expressions.
use crate::Error;
use crate::budget::Budget;
use crate::call::call;
use crate::device::{Device, NoDevice};
use crate::parse::{Expr, Function, Part};
use crate::value::{Answer, Value, arithmetic, attribute_value, compare, overflow, wrong};

/// The budget of an evaluation for one device: a step for each part of an expression each time it is evaluated, and
/// more for values that are copied, compared and matched. It bounds nested macros and texts that double.
const STEPS_MAX: u64 = 100_000;

/// The most lists and optionals nested within each other.
const VALUE_DEPTH_MAX: usize = 64;

pub(crate) fn selects(expr: &Expr, device: &dyn Device, budget: &mut Budget) -> Result<bool, Error> {
    budget.within(STEPS_MAX, |budget| truth(expr, Scope { device, bound: Vec::new(), budget }))
}

/// Whether an expression about variables holds.
pub(crate) fn holds(expr: &Expr, bound: Vec<(&str, Value)>, budget: &mut Budget) -> Result<bool, Error> {
    truth(expr, Scope { device: &NoDevice, bound, budget })
}

fn truth<'a>(expr: &'a Expr, mut scope: Scope<'a, '_>) -> Result<bool, Error> {
    match scope.eval(expr)? {
        Value::Bool(selects) => Ok(selects),
        other => wrong(format!("the expression is {}, expected a boolean", other.kind())),
    }
}

pub(crate) struct Scope<'a, 'b> {
    pub(crate) device: &'a dyn Device,
    bound: Vec<(&'a str, Value)>,
    pub(crate) budget: &'b mut Budget,
}

impl<'a> Scope<'a, '_> {
    fn eval(&mut self, expr: &'a Expr) -> Answer {
        self.budget.charge(1)?;
        let value = self.value(expr)?;
        let (weight, depth) = value.measure();
        self.budget.charge(weight)?;
        if depth > VALUE_DEPTH_MAX {
            return wrong("lists are nested too deep".to_owned());
        }
        Ok(value)
    }

    fn value(&mut self, expr: &'a Expr) -> Answer {
        match &expr.part {
            Part::Bool(value) => Ok(Value::Bool(*value)),
            Part::Int(value) => Ok(Value::Int(*value)),
            Part::Text(value) => Ok(Value::Text(value.clone())),
            Part::List(list) => Ok(Value::List(self.all(list)?)),
            Part::Variable(name) => self.variable(name),
            Part::Field(of, name) => {
                let of = self.eval(of)?;
                self.member(&of, name)
            }
            Part::Index(of, index) => self.index(of, index),
            Part::Not(inner) => Ok(Value::Bool(!self.boolean(inner)?)),
            Part::Negative(inner) => match self.eval(inner)? {
                Value::Int(number) => number.checked_neg().map(Value::Int).ok_or_else(overflow),
                other => wrong(format!("- needs an integer, found {}", other.kind())),
            },
            Part::Sides(decides, sides) => self.sides(*decides, sides),
            Part::Binary(operator, a, b) => {
                let (a, b) = (self.eval(a)?, self.eval(b)?);
                self.binary(operator, &a, &b)
            }
            Part::If(parts) => {
                let at = if self.boolean(&parts[0])? { 1 } else { 2 };
                self.eval(&parts[at])
            }
            Part::Has(of, name) => {
                let of = self.eval(of)?;
                Ok(Value::Bool(self.lookup(&of, name)?.is_some()))
            }
            Part::Optional(of, index) => {
                let (of, index) = (self.eval(of)?, self.eval(index)?);
                self.optional(of, &index)
            }
            Part::Matches(of, pattern) => match self.eval(of)? {
                Value::Text(text) => pattern.matches(&text, self.budget).map(Value::Bool),
                other => wrong(format!("{} cannot match", other.kind())),
            },
            Part::Macro(found, of, name, parts) => {
                let of = self.eval(of)?;
                self.over(*found, of, name, parts)
            }
            Part::Call(function @ (Function::Or | Function::OrValue), arguments) => {
                self.or(*function, &arguments[0], &arguments[1])
            }
            Part::Call(function, arguments) => {
                let arguments = self.all(arguments)?;
                call(*function, &arguments, self.budget)
            }
            Part::Bind(name, value, body) => {
                let value = self.eval(value)?;
                self.with(name, value, body)
            }
        }
    }

    pub(crate) fn with(&mut self, name: &'a str, value: Value, body: &'a Expr) -> Answer {
        self.bound.push((name, value));
        let answer = self.eval(body);
        self.bound.pop();
        answer
    }

    pub(crate) fn holds(&mut self, name: &'a str, value: Value, body: &'a Expr) -> Result<bool, Error> {
        match self.with(name, value, body)? {
            Value::Bool(value) => Ok(value),
            other => wrong(format!("found {}, expected a boolean", other.kind())),
        }
    }

    /// Selects from the value of an optional; an optional without a value stays so.
    fn optional(&self, of: Value, index: &Value) -> Answer {
        let found = match (of, index) {
            (Value::Optional(None), _) => None,
            (Value::Optional(Some(of)), index) => return self.optional(*of, index),
            (Value::List(list), Value::Int(at)) => {
                usize::try_from(*at).ok().and_then(|at| list.get(at).cloned())
            }
            (of, Value::Text(name)) => self.lookup(&of, name)?,
            (of, index) => return wrong(format!("{} has no {}", of.kind(), index.kind())),
        };
        Ok(Value::Optional(found.map(Box::new)))
    }

    /// The other operand is evaluated only when it is needed.
    fn or(&mut self, function: Function, of: &'a Expr, other: &'a Expr) -> Answer {
        match (self.eval(of)?, function) {
            (Value::Optional(None), _) => self.eval(other),
            (Value::Optional(Some(value)), Function::OrValue) => Ok(*value),
            (value @ Value::Optional(_), _) => Ok(value),
            (other, _) => wrong(format!("found {}, expected an optional", other.kind())),
        }
    }

    fn all(&mut self, list: &'a [Expr]) -> Result<Vec<Value>, Error> {
        list.iter().map(|expr| self.eval(expr)).collect()
    }

    fn variable(&mut self, name: &str) -> Answer {
        if let Some((_, value)) = self.bound.iter().rev().find(|(bound, _)| *bound == name) {
            self.budget.charge(value.measure().0)?;
            return Ok(value.clone());
        }
        if name == "device" {
            return Ok(Value::Device);
        }
        wrong(format!("there is no variable {name}"))
    }

    fn boolean(&mut self, expr: &'a Expr) -> Result<bool, Error> {
        match self.eval(expr)? {
            Value::Bool(value) => Ok(value),
            other => wrong(format!("found {}, expected a boolean", other.kind())),
        }
    }

    /// One operand that decides is enough, whatever errors others have, as in CEL.
    fn sides(&mut self, decides: bool, sides: &'a [Expr]) -> Answer {
        let mut fault = None;
        for side in sides {
            match self.boolean(side) {
                Ok(found) if found == decides => return Ok(Value::Bool(decides)),
                Ok(_) => {}
                Err(error) => fault = Some(error),
            }
            // An operand that used up the budget is an error.
            self.budget.charge(1)?;
        }
        fault.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn index(&mut self, of: &'a Expr, index: &'a Expr) -> Answer {
        let (of, index) = (self.eval(of)?, self.eval(index)?);
        match (&of, &index) {
            (Value::List(list), Value::Int(at)) => {
                let item = usize::try_from(*at).ok().and_then(|at| list.get(at));
                item.cloned().ok_or_else(|| Error(format!("index {at} is out of bounds")))
            }
            (Value::Optional(_), _) => self.optional(of, &index),
            (_, Value::Text(name)) => self.member(&of, name),
            _ => wrong(format!("{} has no {}", of.kind(), index.kind())),
        }
    }

    fn member(&self, of: &Value, name: &str) -> Answer {
        if let Value::Optional(_) = of {
            return self.optional(of.clone(), &Value::Text(name.to_owned()));
        }
        self.lookup(of, name)?.ok_or_else(|| Error(format!("no such key: {name}")))
    }

    fn lookup(&self, of: &Value, name: &str) -> Result<Option<Value>, Error> {
        Ok(match of {
            Value::Device => match name {
                "driver" => Some(Value::Text(self.device.driver().to_owned())),
                "attributes" => Some(Value::Attributes),
                "capacity" => Some(Value::Capacities),
                _ => return wrong(format!("device.{name} is not supported")),
            },
            Value::Attributes => Some(Value::AttributesOf(name.to_owned())),
            Value::Capacities => Some(Value::CapacitiesOf(name.to_owned())),
            Value::AttributesOf(domain) => {
                self.device.attribute(domain, name).map(attribute_value).transpose()?
            }
            Value::CapacitiesOf(domain) => self.device.capacity(domain, name).map(Value::Quantity),
            Value::Map(fields) => fields.get(name).cloned(),
            Value::Optional(None) => None,
            Value::Optional(Some(value)) => self.lookup(value, name)?,
            other => return wrong(format!("{} has no {name}", other.kind())),
        })
    }

    fn binary(&mut self, operator: &str, a: &Value, b: &Value) -> Answer {
        match operator {
            "==" => Ok(Value::Bool(a == b)),
            "!=" => Ok(Value::Bool(a != b)),
            "in" => match (a, b) {
                (_, Value::List(list)) => Ok(Value::Bool(list.contains(a))),
                (Value::Text(name), Value::Map(fields)) => Ok(Value::Bool(fields.contains_key(name))),
                (Value::Text(name), map) => match self.keys(map)? {
                    Some(keys) => Ok(Value::Bool(keys.contains(&name.as_str()))),
                    None => wrong(format!("text cannot be in {}", map.kind())),
                },
                _ => wrong(format!("{} cannot be in {}", a.kind(), b.kind())),
            },
            "<" => Ok(Value::Bool(compare(a, b)?.is_lt())),
            "<=" => Ok(Value::Bool(compare(a, b)?.is_le())),
            ">" => Ok(Value::Bool(compare(a, b)?.is_gt())),
            ">=" => Ok(Value::Bool(compare(a, b)?.is_ge())),
            _ => {
                self.budget.charge(a.measure().0 + b.measure().0)?;
                arithmetic(operator, a, b)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_resource::Quantity;

    use super::*;
    use crate::Expression;
    use crate::device::Attribute;

    struct Gpu;

    impl Device for Gpu {
        fn driver(&self) -> &'static str {
            "gpu.example.com"
        }

        fn attribute(&self, domain: &str, name: &str) -> Option<Attribute<'_>> {
            match (domain, name) {
                ("gpu.example.com", "model") => Some(Attribute::Text("A100")),
                ("gpu.example.com", "index") => Some(Attribute::Int(3)),
                ("gpu.example.com", "healthy") => Some(Attribute::Bool(true)),
                ("gpu.example.com", "driverVersion") => Some(Attribute::Version("1.20.3-rc.2")),
                _ => None,
            }
        }

        fn capacity(&self, domain: &str, name: &str) -> Option<Quantity> {
            (domain == "gpu.example.com" && name == "memory").then(|| "40Gi".parse().unwrap())
        }

        fn attributes(&self) -> Vec<(&str, &str)> {
            ["model", "index", "healthy", "driverVersion"].map(|name| (self.driver(), name)).to_vec()
        }

        fn capacities(&self) -> Vec<(&str, &str)> {
            vec![(self.driver(), "memory")]
        }
    }

    fn eval(text: &str) -> Result<bool, String> {
        let selects = |expr: Expression| expr.selects(&Gpu, &mut Budget::new(1_000_000));
        Expression::parse(text, &mut Budget::new(1_000_000)).and_then(selects).map_err(|error| error.0)
    }

    #[test]
    fn expressions_select_devices() {
        for (text, expected) in [
            ("true", true),
            ("device.driver == 'gpu.example.com'", true),
            (r#"device.attributes["gpu.example.com"].model == "A100""#, true),
            (r#"device.attributes["gpu.example.com"]["model"] != "A100""#, false),
            (r#"device.attributes["gpu.example.com"].index in [1, 3]"#, true),
            (r#"!(device.attributes["gpu.example.com"].healthy)"#, false),
            (r#"device.attributes["gpu.example.com"].index * 2 - 1 >= 5 && -1 < 0"#, true),
            (r#"has(device.attributes["gpu.example.com"].nothing)"#, false),
            (r#""model" in device.attributes["gpu.example.com"]"#, true),
            (r#""model" in device.attributes["other.example.com"]"#, false),
            (r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0"#, true),
            (r#"device.capacity["gpu.example.com"].memory == quantity("40960Mi")"#, true),
            (r#"device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))"#, false),
            (r#"device.attributes["gpu.example.com"].driverVersion.isLessThan(semver("1.20.3"))"#, true),
            (r#"device.attributes["gpu.example.com"].driverVersion > semver("1.20.3-rc.1")"#, true),
            (r#"device.attributes["gpu.example.com"].driverVersion.minor() == 20"#, true),
            (r#"device.attributes["gpu.example.com"].model.lowerAscii().startsWith("a1")"#, true),
            (r#"device.driver.contains("x") ? false : size(device.driver) > 3"#, false),
            (r#"cel.bind(gpu, device.attributes["gpu.example.com"], gpu.healthy && gpu.index > 2)"#, true),
            ("1 == 'one'", false),
            ("'a' + \"b\" == 'ab' && 7 / 2 == 3 && 7 % 2 == 1", true),
            (r#"true || device.attributes["x"].y"#, true),
            (r#"device.attributes["x"].y || true"#, true),
            (r#"false && device.attributes["x"].y == 1"#, false),
        ] {
            assert_eq!(eval(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_regular_expression_matches_anywhere_in_a_text() {
        for (text, expected) in [
            (r#"device.attributes["gpu.example.com"].model.matches("^[AH]100$")"#, true),
            (r#"device.attributes["gpu.example.com"].model.matches("100")"#, true),
            (r#"device.attributes["gpu.example.com"].model.matches("^100")"#, false),
            (r#"matches(device.driver, "(?i)GPU\\.")"#, true),
            (r#"matches(device.driver, "gpu" + "$")"#, false),
            ("'ä'.matches('^.$')", true),
            (r"'a1'.matches(r'^a\d$') && size(R'\') == 1", true),
        ] {
            assert_eq!(eval(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn macros_iterate_over_lists_and_keys_of_maps() {
        for (text, expected) in [
            ("[1, 2, 3].all(x, x > 0) && ![1, 2, 3].all(x, x > 1)", true),
            ("[1, 2, 3].exists(x, x > 2) && ![].exists(x, true) && [].all(x, false)", true),
            ("[1, 2, 2].exists_one(x, x == 1) && ![1, 2, 2].existsOne(x, x == 2)", true),
            ("[1, 2, 3].filter(x, x % 2 == 1) == [1, 3]", true),
            ("[1, 2, 3].map(x, x * x) == [1, 4, 9] && [1, 2, 3].map(x, x > 1, x * x) == [4, 9]", true),
            ("[[1, 2], [3]].exists(x, x.exists(y, y == 3 && size(x) == 1))", true),
            ("[1].exists(x, [2].exists(x, x == 2) && x == 1)", true),
            ("[0, 1].exists(x, 1 / x == 1) && ![0, 1].all(x, 1 / x > 1)", true),
            ("['A100', 'H100'].exists(m, m == device.attributes['gpu.example.com'].model)", true),
            ("device.attributes['gpu.example.com'].exists(name, name.startsWith('driver'))", true),
            ("device.capacity['gpu.example.com'].all(name, name == 'memory')", true),
            ("device.attributes.exists(domain, domain == 'gpu.example.com')", true),
            ("'gpu.example.com' in device.attributes && !('x' in device.capacity)", true),
            ("device.attributes['other.example.com'].exists(name, true)", false),
            ("[1] + [2] == [1, 2]", true),
        ] {
            assert_eq!(eval(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn optional_values_stand_for_missing_fields_and_elements() {
        let gpu = "device.attributes['gpu.example.com']";
        for (text, expected) in [
            (format!("{gpu}.?model.orValue('none') == 'A100'"), true),
            (format!("{gpu}.?nothing.orValue('none') == 'none'"), true),
            (format!("{gpu}[?'model'].hasValue() && !{gpu}.?nothing.hasValue()"), true),
            ("device.?attributes['gpu.example.com'].model.orValue('') == 'A100'".to_owned(), true),
            ("device.attributes[?'x'].nothing.orValue(3) == 3".to_owned(), true),
            (format!("{gpu}.?nothing.or({gpu}.?index).value() == 3"), true),
            (format!("{gpu}.?index.optMap(i, i * 2).orValue(0) == 6"), true),
            (format!("{gpu}.?nothing.optMap(i, i * 2).orValue(0) == 0"), true),
            (format!("{gpu}.?index.optFlatMap(i, {gpu}.?nothing).hasValue()"), false),
            (format!("{gpu}.?index == optional.of(3) && {gpu}.?nothing == optional.none()"), true),
            (format!("{gpu}.?model.orValue({gpu}.nothing) == 'A100'"), true),
            ("[1, 2][?5].orValue(7) == 7 && [1, 2][?1].value() == 2".to_owned(), true),
            (format!("has({gpu}.?nothing.more)"), false),
        ] {
            assert_eq!(eval(&text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn an_evaluation_with_too_many_steps_is_an_error() {
        let digits = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]";
        let deep = (0..20).fold("true".to_owned(), |body, at| format!("{digits}.all(x{at}, {body})"));
        assert_eq!(eval(&deep), Err("it takes too many steps".to_owned()));
        for twice in ["x + x", "[x, x]"] {
            let doubled =
                (0..60).fold("x == x".to_owned(), |body, _| format!("cel.bind(x, {twice}, {body})"));
            let text = format!("cel.bind(x, 'a', {doubled})");
            assert_eq!(eval(&text), Err("it takes too many steps".to_owned()));
        }
    }

    #[test]
    fn an_invalid_or_unsupported_expression_is_an_error_with_its_column() {
        for (text, problem) in [
            ("", "column 1: found the end, expected a value"),
            ("1 +", "column 4: found the end, expected a value"),
            ("device.driver = 'x'", "column 15: found =, expected the end"),
            ("'x", "column 1: text without an end"),
            ("device.driver.split('x') == []", "column 26: function split is not supported"),
            (
                "device.driver.matches('[')",
                "column 27: \"[\" is no regular expression: unclosed character class",
            ),
            ("1.matches('x')", "column 1: found \"1.matches\", expected a decimal integer"),
            (
                "1.5 > 1.0",
                "column 1: numbers with a fraction such as 1.5 are not supported, expected a decimal integer",
            ),
            (
                "1 < 0x1F",
                "column 5: hexadecimal numbers such as 0x1F are not supported, expected a decimal integer",
            ),
            (
                "2u == 2u",
                "column 1: unsigned numbers such as 2u are not supported, expected a decimal integer",
            ),
            ("null == null", "column 1: null is not supported"),
            ("{'a': 1}['a'] == 1", "column 1: maps in braces are not supported"),
            ("int('1') == 1", "column 10: function int is not supported"),
            ("device.attributes['gpu.example.com'].size() > 0", "the size of a map is not supported"),
            ("(1).matches('x')", "an integer cannot match"),
            ("[1].exists(1, true)", "column 20: exists needs a name and an expression"),
            ("[1].all(x)", "column 11: all needs a name and an expression"),
            ("[1, 2].all(x, x)", "found an integer, expected a boolean"),
            ("[0, 1].exists(x, 1 / x > 1)", "a number is out of range, or was divided by 0"),
            ("(1).exists(x, true)", "found an integer, expected a list or a map"),
            ("x || [1].exists(x, false)", "there is no variable x"),
            ("optional.none().value()", "the optional has no value"),
            ("[1].orValue(2) == 2", "found a list, expected an optional"),
            (
                r#"device.attributes["gpu.example.com"].?healthy"#,
                "the expression is an optional, expected a boolean",
            ),
            ("device.driver", "the expression is text, expected a boolean"),
            ("device.nodeName == 'x'", "device.nodeName is not supported"),
            ("node.name == 'x'", "there is no variable node"),
            (r#"device.attributes["x"].y == 1"#, "no such key: y"),
            ("1 < 'a'", "an integer cannot be compared with text"),
            ("1 / 0 == 1", "a number is out of range, or was divided by 0"),
            ("[1][1] == 1", "index 1 is out of bounds"),
            ("semver('1.2') > semver('1.0.0')", "\"1.2\" is no semantic version"),
            ("ä", "column 1: found 'ä', expected an expression"),
        ] {
            assert_eq!(eval(text), Err(problem.to_owned()), "{text}");
        }
        for (open, close) in [("(", ")"), ("[", "]"), ("!", "")] {
            let deep = format!("{}true{}", open.repeat(20_000), close.repeat(20_000));
            assert!(eval(&deep).is_err(), "{open}");
        }
    }
}
