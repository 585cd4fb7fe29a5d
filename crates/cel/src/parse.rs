//! Tokens to expressions.
//!
//! Tenants write expressions. Parsing, evaluation, comparison and drop are recursive, so the height of an expression is
//! limited: each part knows its height, and a part that would be too high is an error.
use crate::Error;
use crate::budget::Budget;
use crate::lex::{Token, tokens};
use crate::pattern::Pattern;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(crate) part: Part,
    /// The number of parts nested within each other, this one included.
    height: usize,
}

/// What an expression is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Bool(bool),
    Int(i64),
    Text(String),
    List(Vec<Expr>),
    Variable(String),
    Field(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Negative(Box<Expr>),
    /// The operands of `&&` (true) or `||` (false): `||` is decided by an operand that is true, `&&` by one that is
    /// false.
    Sides(bool, Vec<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    If(Box<[Expr; 3]>),
    /// Whether a field is there.
    Has(Box<Expr>, String),
    /// A function, or a method with its receiver as the first argument.
    Call(Function, Vec<Expr>),
    Bind(String, Box<Expr>, Box<Expr>),
    /// What is there of a map, as an optional.
    Optional(Box<Expr>, Box<Expr>),
    /// Whether text matches a regular expression.
    Matches(Box<Expr>, Pattern),
    /// Over the items of a list or the keys of a map, each under a name.
    Macro(Macro, Box<Expr>, String, Vec<Expr>),
}

/// What is made of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    /// With a filter condition before the mapped expression, or without.
    Map,
    /// Of the value of an optional.
    OptMap,
    OptFlatMap,
}

const MACROS: [(&str, Macro); 8] = [
    ("all", Macro::All),
    ("exists", Macro::Exists),
    ("exists_one", Macro::ExistsOne),
    ("existsOne", Macro::ExistsOne),
    ("filter", Macro::Filter),
    ("map", Macro::Map),
    ("optMap", Macro::OptMap),
    ("optFlatMap", Macro::OptFlatMap),
];

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    Size,
    Quantity,
    Semver,
    StartsWith,
    EndsWith,
    Contains,
    LowerAscii,
    UpperAscii,
    CompareTo,
    IsGreaterThan,
    IsLessThan,
    Major,
    Minor,
    Patch,
    Matches,
    /// An optional that has a value.
    Of,
    /// One that has none.
    None,
    HasValue,
    Value,
    Or,
    OrValue,
    Sum,
    String,
}

/// The name, whether it is a method, and the number of arguments besides the receiver.
const FUNCTIONS: [(&str, bool, usize, Function); 23] = [
    ("size", false, 1, Function::Size),
    ("quantity", false, 1, Function::Quantity),
    ("semver", false, 1, Function::Semver),
    ("size", true, 0, Function::Size),
    ("startsWith", true, 1, Function::StartsWith),
    ("endsWith", true, 1, Function::EndsWith),
    ("contains", true, 1, Function::Contains),
    ("lowerAscii", true, 0, Function::LowerAscii),
    ("upperAscii", true, 0, Function::UpperAscii),
    ("compareTo", true, 1, Function::CompareTo),
    ("isGreaterThan", true, 1, Function::IsGreaterThan),
    ("isLessThan", true, 1, Function::IsLessThan),
    ("major", true, 0, Function::Major),
    ("minor", true, 0, Function::Minor),
    ("patch", true, 0, Function::Patch),
    ("matches", true, 1, Function::Matches),
    ("matches", false, 2, Function::Matches),
    ("hasValue", true, 0, Function::HasValue),
    ("value", true, 0, Function::Value),
    ("or", true, 1, Function::Or),
    ("orValue", true, 1, Function::OrValue),
    ("sum", true, 0, Function::Sum),
    ("string", false, 1, Function::String),
];

/// Operators by how tightly they bind.
const LEVELS: [&[&str]; 5] =
    [&["||"], &["&&"], &["==", "!=", "<=", ">=", "<", ">", "in"], &["+", "-"], &["*", "/", "%"]];

/// The longest expression in bytes. Source: resource.k8s.io/v1 `CELSelectorExpressionMaxLength`.
const LENGTH_MAX: usize = 10 * 1024;

/// Brackets, signs, operators and calls within each other at most; sides of `&&` and `||` are beside each other.
const DEPTH_MAX: usize = 64;

/// What a byte of an expression costs.
const STEPS_PER_BYTE: u64 = 4;

impl Part {
    fn children(&self) -> Vec<&Expr> {
        match self {
            Part::Bool(_) | Part::Int(_) | Part::Text(_) | Part::Variable(_) => Vec::new(),
            Part::List(all) | Part::Sides(_, all) | Part::Call(_, all) => all.iter().collect(),
            Part::Field(of, _)
            | Part::Has(of, _)
            | Part::Not(of)
            | Part::Negative(of)
            | Part::Matches(of, _) => vec![of],
            Part::Index(a, b) | Part::Binary(_, a, b) | Part::Bind(_, a, b) | Part::Optional(a, b) => {
                vec![a, b]
            }
            Part::If(parts) => parts.iter().collect(),
            Part::Macro(_, of, _, parts) => std::iter::once(&**of).chain(parts).collect(),
        }
    }
}

/// Reads text. What is done for each byte, and regular expressions that are prepared, are charged to the budget.
pub(crate) fn parse(text: &str, budget: &mut Budget) -> Result<Expr, Error> {
    if text.len() > LENGTH_MAX {
        return Err(Error(format!("found {} bytes, expected at most {LENGTH_MAX}", text.len())));
    }
    budget.charge(text.len() as u64 * STEPS_PER_BYTE)?;
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, budget };
    let expr = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected("the end")),
    }
}

struct Parser<'a> {
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    budget: &'a mut Budget,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn error(&self, problem: &str) -> Error {
        Error(format!("column {}: {problem}", self.tokens[self.at].1))
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = match self.peek() {
            Token::Name(name) => name.clone(),
            Token::Text(text) => format!("{text:?}"),
            Token::Int(number) => number.to_string(),
            Token::Sign(sign) => (*sign).to_owned(),
            Token::End => "the end".to_owned(),
        };
        self.error(&format!("found {found}, expected {expected}"))
    }

    fn takes(&mut self, sign: &str) -> bool {
        let takes = matches!(self.peek(), Token::Sign(found) if *found == sign);
        self.at += usize::from(takes);
        takes
    }

    fn expect(&mut self, sign: &str) -> Result<(), Error> {
        if self.takes(sign) { Ok(()) } else { Err(self.unexpected(sign)) }
    }

    /// An expression of a part, unless it is too high.
    fn made(&self, part: Part) -> Result<Expr, Error> {
        let height = 1 + part.children().iter().map(|child| child.height).max().unwrap_or(0);
        if height > DEPTH_MAX { Err(self.too_deep()) } else { Ok(Expr { part, height }) }
    }

    fn too_deep(&self) -> Error {
        self.error("the expression is nested too deep")
    }

    fn expression(&mut self) -> Result<Expr, Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.too_deep());
        }
        let condition = self.binary(0)?;
        let expr = if self.takes("?") {
            let yes = self.expression()?;
            self.expect(":")?;
            let no = self.expression()?;
            self.made(Part::If(Box::new([condition, yes, no])))?
        } else {
            condition
        };
        self.depth -= 1;
        Ok(expr)
    }

    /// What is joined by operators of a level, or of levels that bind tighter.
    fn binary(&mut self, least: usize) -> Result<Expr, Error> {
        let mut left = self.unary()?;
        for level in (least..LEVELS.len()).rev() {
            while let Some(operator) = self.operator(LEVELS[level]) {
                let right = self.binary(level + 1)?;
                left = match operator {
                    "&&" | "||" => self.sides(operator, level, vec![left, right])?,
                    _ => self.made(Part::Binary(operator, Box::new(left), Box::new(right)))?,
                };
            }
        }
        Ok(left)
    }

    fn sides(&mut self, operator: &'static str, level: usize, mut all: Vec<Expr>) -> Result<Expr, Error> {
        while self.takes(operator) {
            all.push(self.binary(level + 1)?);
        }
        self.made(Part::Sides(operator == "||", all))
    }

    fn operator(&mut self, of: &[&'static str]) -> Option<&'static str> {
        let found = of.iter().copied().find(|operator| match self.peek() {
            Token::Sign(sign) => sign == operator,
            Token::Name(name) => name == operator,
            _ => false,
        })?;
        self.at += 1;
        Some(found)
    }

    fn unary(&mut self) -> Result<Expr, Error> {
        let mut signs = Vec::new();
        while let Some(sign) = self.operator(&["!", "-"]) {
            signs.push(sign);
        }
        let mut expr = self.member()?;
        for sign in signs.into_iter().rev() {
            let inner = Box::new(expr);
            expr = self.made(if sign == "!" { Part::Not(inner) } else { Part::Negative(inner) })?;
        }
        Ok(expr)
    }

    fn member(&mut self) -> Result<Expr, Error> {
        let mut expr = self.primary()?;
        loop {
            if self.takes("[") {
                let optional = self.takes("?");
                let (of, index) = (Box::new(expr), Box::new(self.expression()?));
                self.expect("]")?;
                expr =
                    self.made(if optional { Part::Optional(of, index) } else { Part::Index(of, index) })?;
            } else if self.takes(".") {
                let optional = self.takes("?");
                let Token::Name(name) = self.peek().clone() else { return Err(self.unexpected("a name")) };
                self.next();
                let part = if optional {
                    Part::Optional(Box::new(expr), Box::new(self.made(Part::Text(name))?))
                } else {
                    self.field_or_call(expr, name)?
                };
                expr = self.made(part)?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn field_or_call(&mut self, of: Expr, name: String) -> Result<Part, Error> {
        if !self.takes("(") {
            return Ok(Part::Field(Box::new(of), name));
        }
        let arguments = self.list(")")?;
        let on = |known: &str| matches!(&of.part, Part::Variable(variable) if variable == known);
        match name.as_str() {
            "bind" if on("cel") => return self.bind(arguments),
            "of" if on("optional") && arguments.len() == 1 => return Ok(Part::Call(Function::Of, arguments)),
            "none" if on("optional") && arguments.is_empty() => {
                return Ok(Part::Call(Function::None, arguments));
            }
            _ => {}
        }
        match MACROS.iter().find(|(known, _)| *known == name) {
            Some((_, found)) => self.over(&name, *found, of, arguments),
            None => self.call(&name, Some(of), arguments),
        }
    }

    fn over(&self, name: &str, found: Macro, of: Expr, arguments: Vec<Expr>) -> Result<Part, Error> {
        let mut arguments = arguments.into_iter();
        let variable = arguments.next();
        let rest: Vec<Expr> = arguments.collect();
        match variable {
            Some(Expr { part: Part::Variable(variable), .. })
                if rest.len() == 1 || (found == Macro::Map && rest.len() == 2) =>
            {
                Ok(Part::Macro(found, Box::new(of), variable, rest))
            }
            _ => Err(self.error(&format!("{name} needs a name and an expression"))),
        }
    }

    fn bind(&self, arguments: Vec<Expr>) -> Result<Part, Error> {
        match <[Expr; 3]>::try_from(arguments) {
            Ok([Expr { part: Part::Variable(name), .. }, value, body]) => {
                Ok(Part::Bind(name, Box::new(value), Box::new(body)))
            }
            _ => Err(self.error("cel.bind needs a name, a value and an expression")),
        }
    }

    fn call(&mut self, name: &str, on: Option<Expr>, arguments: Vec<Expr>) -> Result<Part, Error> {
        let known = FUNCTIONS.iter().find(|(known, method, ..)| *known == name && *method == on.is_some());
        let Some((_, _, count, function)) = known else {
            return Err(self.error(&format!("function {name} is not supported")));
        };
        if arguments.len() != *count {
            return Err(self.error(&format!("function {name} has {count} argument(s)")));
        }
        let mut arguments: Vec<Expr> = on.into_iter().chain(arguments).collect();
        if *function == Function::Matches
            && let Some(Expr { part: Part::Text(text), .. }) = arguments.get(1)
        {
            let pattern = Pattern::new(text, self.budget).map_err(|error| self.error(&error.0))?;
            return Ok(Part::Matches(Box::new(arguments.swap_remove(0)), pattern));
        }
        Ok(Part::Call(*function, arguments))
    }

    fn list(&mut self, end: &str) -> Result<Vec<Expr>, Error> {
        let mut list = Vec::new();
        while !self.takes(end) {
            list.push(self.expression()?);
            if !self.takes(",") {
                self.expect(end)?;
                break;
            }
        }
        Ok(list)
    }

    fn primary(&mut self) -> Result<Expr, Error> {
        if self.takes("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.takes("[") {
            let list = self.list("]")?;
            return self.made(Part::List(list));
        }
        match self.peek().clone() {
            Token::Int(number) => self.took(Part::Int(number)),
            Token::Text(text) => self.took(Part::Text(text)),
            Token::Name(name) if name == "true" || name == "false" => self.took(Part::Bool(name == "true")),
            Token::Name(name) if name == "null" => Err(self.error("null is not supported")),
            Token::Sign("{") => Err(self.error("maps in braces are not supported")),
            Token::Name(name) if name != "in" => {
                self.next();
                let part = self.named(name)?;
                self.made(part)
            }
            _ => Err(self.unexpected("a value")),
        }
    }

    fn took(&mut self, part: Part) -> Result<Expr, Error> {
        self.next();
        self.made(part)
    }

    fn named(&mut self, name: String) -> Result<Part, Error> {
        if !self.takes("(") {
            return Ok(Part::Variable(name));
        }
        let arguments = self.list(")")?;
        if name != "has" {
            return self.call(&name, None, arguments);
        }
        match <[Expr; 1]>::try_from(arguments) {
            Ok([Expr { part: Part::Field(of, field), .. }]) => Ok(Part::Has(of, field)),
            _ => Err(self.error("has() needs a field")),
        }
    }
}
