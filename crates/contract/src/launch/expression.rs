//! Integer expressions in a manifest: sizes of grids, of buffers, of what kernels are told.
//!
//! Arithmetic is that of `i64` and checked; `/` rounds down and `%` has the sign of its right side, so that
//! `a == (a / b) * b + a % b`. Comparisons give 1 or 0. From loose to tight:
//! `c ? a : b`, `||`, `&&`, `== !=`, `< <= > >=`, `+ -`, `* / %`, then `-a` and `!a`. Functions are `ceil_div(a, b)`, `min(a, b)`,
//! `max(a, b)`, and of a tensor `dtype(x)` and `elements(x)`.

use std::fmt;

/// Longest text of an expression, in bytes.
const TEXT_BYTES_MAX: usize = 512;
/// Deepest nesting of parentheses, signs, calls and conditions.
const DEPTH_MAX: usize = 32;

/// A parsed expression, and its text.
#[derive(Debug, Clone, PartialEq)]
pub struct Expression {
    text: String,
    root: Node,
}

/// What an expression may ask its surroundings for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Term<'a> {
    /// A number by its name.
    Name(&'a str),
    /// The element type of a tensor.
    DType(&'a str),
    /// The number of elements of a tensor.
    Elements(&'a str),
}

/// Why an expression was refused or has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}`, character {at}: {message}", text.escape_debug())]
pub struct ExpressionError {
    /// The whole expression.
    pub text: String,
    /// Where in it, in characters from 1.
    pub at: usize,
    /// What is wrong.
    pub message: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Node {
    /// Byte of the text.
    at: usize,
    what: What,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    Integer(i64),
    Name(String),
    DType(String),
    Elements(String),
    Negate(Box<Node>),
    Not(Box<Node>),
    Binary(Binary, Box<[Node; 2]>),
    Choose(Box<[Node; 3]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    And,
    Or,
    CeilDiv,
    Min,
    Max,
}

/// Operators between two operands: the longest first where one begins another. The number is how tightly it binds.
const OPERATORS: [(&str, Binary, u8); 13] = [
    ("||", Binary::Or, 1),
    ("&&", Binary::And, 2),
    ("==", Binary::Equal, 3),
    ("!=", Binary::Unequal, 3),
    ("<=", Binary::LessEqual, 4),
    (">=", Binary::GreaterEqual, 4),
    ("<", Binary::Less, 4),
    (">", Binary::Greater, 4),
    ("+", Binary::Add, 5),
    ("-", Binary::Subtract, 5),
    ("*", Binary::Multiply, 6),
    ("/", Binary::Divide, 6),
    ("%", Binary::Remainder, 6),
];

impl Expression {
    /// Reads an expression.
    ///
    /// # Errors
    /// If it is none; the message says where it ceases to be one.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let fault = |(at, message): Fault| error(text, at, message);
        if text.len() > TEXT_BYTES_MAX {
            let beginning: String = text.chars().take(40).collect();
            return Err(error(&beginning, 0, format!("… is longer than {TEXT_BYTES_MAX} bytes")));
        }
        let mut parser = Parser { text, at: 0, depth: 0 };
        let root = parser.choice().map_err(fault)?;
        parser.skip_space();
        match parser.rest().chars().next() {
            None => Ok(Self { text: text.to_owned(), root }),
            Some(c) => Err(fault((
                parser.at,
                format!("expected an operator or the end, not `{}`", c.escape_debug()),
            ))),
        }
    }

    /// The text that it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The name that the whole expression is, if it is nothing else.
    pub fn as_name(&self) -> Option<&str> {
        match &self.root.what {
            What::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Its value, where `look_up` gives what the terms stand for.
    ///
    /// # Errors
    /// At a term that is not known, a division by zero, and where a number leaves the range of `i64`.
    pub fn evaluate(&self, look_up: &dyn Fn(Term<'_>) -> Option<i64>) -> Result<i64, ExpressionError> {
        self.root.evaluate(look_up).map_err(|(at, message)| error(&self.text, at, message))
    }

    /// Requires every term to be known.
    ///
    /// # Errors
    /// At the first that is not; `explain` says what there is instead.
    pub fn check(
        &self,
        knows: &dyn Fn(Term<'_>) -> bool,
        explain: &dyn Fn(Term<'_>) -> String,
    ) -> Result<(), ExpressionError> {
        let mut todo = vec![&self.root];
        while let Some(node) = todo.pop() {
            if let Some(term) = node.term().filter(|term| !knows(*term)) {
                return Err(error(&self.text, node.at, explain(term)));
            }
            match &node.what {
                What::Negate(inner) | What::Not(inner) => todo.push(inner),
                What::Binary(_, sides) => todo.extend(sides.iter().rev()),
                What::Choose(parts) => todo.extend(parts.iter().rev()),
                What::Integer(_) | What::Name(_) | What::DType(_) | What::Elements(_) => {}
            }
        }
        Ok(())
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Display for Term<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) | Self::DType(name) | Self::Elements(name) => f.pad(name),
        }
    }
}

/// Byte of the text, and what is wrong there.
type Fault = (usize, String);

fn error(text: &str, at: usize, message: String) -> ExpressionError {
    let before = text.get(..at).unwrap_or(text);
    ExpressionError { text: text.to_owned(), at: before.chars().count() + 1, message }
}

impl Node {
    fn term(&self) -> Option<Term<'_>> {
        match &self.what {
            What::Name(name) => Some(Term::Name(name)),
            What::DType(name) => Some(Term::DType(name)),
            What::Elements(name) => Some(Term::Elements(name)),
            _ => None,
        }
    }

    fn evaluate(&self, look_up: &dyn Fn(Term<'_>) -> Option<i64>) -> Result<i64, Fault> {
        match &self.what {
            What::Integer(value) => Ok(*value),
            What::Name(name) | What::DType(name) | What::Elements(name) => {
                self.term().and_then(look_up).ok_or_else(|| (self.at, format!("`{name}` has no value here")))
            }
            What::Negate(inner) => inner.evaluate(look_up)?.checked_neg().ok_or_else(|| self.overflow()),
            What::Not(inner) => Ok((inner.evaluate(look_up)? == 0).into()),
            What::Choose(parts) => {
                let [condition, yes, no] = &**parts;
                if condition.evaluate(look_up)? != 0 { yes.evaluate(look_up) } else { no.evaluate(look_up) }
            }
            What::Binary(operator, sides) => {
                let [left, right] = &**sides;
                let left = left.evaluate(look_up)?;
                // The right side may be without a value where the left one has decided: `n > 0 && m / n > 1`.
                match operator {
                    Binary::And if left == 0 => Ok(0),
                    Binary::Or if left != 0 => Ok(1),
                    _ => self.combine(*operator, left, right.evaluate(look_up)?),
                }
            }
        }
    }

    fn combine(&self, operator: Binary, left: i64, right: i64) -> Result<i64, Fault> {
        let divides = matches!(operator, Binary::Divide | Binary::Remainder | Binary::CeilDiv);
        if divides && right == 0 {
            return Err((self.at, "division by zero".to_owned()));
        }
        let value = match operator {
            Binary::Add => left.checked_add(right),
            Binary::Subtract => left.checked_sub(right),
            Binary::Multiply => left.checked_mul(right),
            Binary::Divide => floor_div(left, right),
            Binary::Remainder => floor_div(left, right)
                .and_then(|quotient| quotient.checked_mul(right))
                .and_then(|product| left.checked_sub(product)),
            Binary::CeilDiv => {
                let quotient = floor_div(left, right);
                quotient.and_then(|quotient| {
                    let exact = quotient.checked_mul(right)? == left;
                    quotient.checked_add(i64::from(!exact))
                })
            }
            Binary::Equal => Some((left == right).into()),
            Binary::Unequal => Some((left != right).into()),
            Binary::Less => Some((left < right).into()),
            Binary::LessEqual => Some((left <= right).into()),
            Binary::Greater => Some((left > right).into()),
            Binary::GreaterEqual => Some((left >= right).into()),
            Binary::And | Binary::Or => Some((right != 0).into()),
            Binary::Min => Some(left.min(right)),
            Binary::Max => Some(left.max(right)),
        };
        value.ok_or_else(|| self.overflow())
    }

    fn overflow(&self) -> Fault {
        (self.at, "the number does not fit 64 bits".to_owned())
    }
}

/// The quotient, rounded down; `None` where it does not fit.
fn floor_div(left: i64, right: i64) -> Option<i64> {
    let quotient = left.checked_div(right)?;
    let exact = left.checked_rem(right)? == 0;
    if !exact && (left < 0) != (right < 0) { quotient.checked_sub(1) } else { Some(quotient) }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes `token` if it comes next.
    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), Fault> {
        if self.take(token) { Ok(()) } else { Err((self.at, format!("expected `{token}`"))) }
    }

    /// Runs `inner` one level deeper.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == DEPTH_MAX {
            return Err((self.at, format!("is nested deeper than {DEPTH_MAX}")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn choice(&mut self) -> Result<Node, Fault> {
        let condition = self.binary(0)?;
        self.skip_space();
        let at = self.at;
        if !self.take("?") {
            return Ok(condition);
        }
        let yes = self.nested(Self::choice)?;
        self.expect(":")?;
        let no = self.nested(Self::choice)?;
        Ok(Node { at, what: What::Choose(Box::new([condition, yes, no])) })
    }

    /// Operands joined by operators that bind tighter than `floor`; equals are joined from the left.
    fn binary(&mut self, floor: u8) -> Result<Node, Fault> {
        let mut left = self.operand()?;
        loop {
            self.skip_space();
            let next = OPERATORS.iter().find(|(token, ..)| self.rest().starts_with(token));
            let Some(&(token, operator, tightness)) = next.filter(|(.., tightness)| *tightness > floor)
            else {
                return Ok(left);
            };
            let at = self.at;
            self.at += token.len();
            let right = self.nested(|parser| parser.binary(tightness))?;
            left = Node { at, what: What::Binary(operator, Box::new([left, right])) };
        }
    }

    fn operand(&mut self) -> Result<Node, Fault> {
        self.skip_space();
        let at = self.at;
        let what = match self.rest().chars().next() {
            Some('-') => {
                self.at += 1;
                What::Negate(Box::new(self.nested(Self::operand)?))
            }
            Some('!') => {
                self.at += 1;
                What::Not(Box::new(self.nested(Self::operand)?))
            }
            Some('(') => {
                self.at += 1;
                let inner = self.nested(Self::choice)?;
                self.expect(")")?;
                return Ok(inner);
            }
            Some(c) if c.is_ascii_digit() => What::Integer(self.integer()?),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name = self.word();
                self.skip_space();
                if self.rest().starts_with('(') { self.call(at, name)? } else { What::Name(name.to_owned()) }
            }
            Some(c) => return Err((at, format!("expected a number or a name, not `{}`", c.escape_debug()))),
            None => return Err((at, "expected a number or a name".to_owned())),
        };
        Ok(Node { at, what })
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn integer(&mut self) -> Result<i64, Fault> {
        let at = self.at;
        let digits = self.word();
        digits.replace('_', "").parse().map_err(|_| (at, format!("`{digits}` is no integer of 64 bits")))
    }

    fn call(&mut self, at: usize, name: &str) -> Result<What, Fault> {
        self.expect("(")?;
        let what = match name {
            "dtype" | "elements" => {
                self.skip_space();
                let tensor = self.word().to_owned();
                if tensor.is_empty() {
                    return Err((self.at, format!("`{name}` wants the name of a tensor")));
                }
                if name == "dtype" { What::DType(tensor) } else { What::Elements(tensor) }
            }
            "ceil_div" | "min" | "max" => {
                let operator = match name {
                    "ceil_div" => Binary::CeilDiv,
                    "min" => Binary::Min,
                    _ => Binary::Max,
                };
                let left = self.nested(Self::choice)?;
                self.expect(",")?;
                let right = self.nested(Self::choice)?;
                What::Binary(operator, Box::new([left, right]))
            }
            _ => {
                let message = format!(
                    "there is no function `{name}`; expected `ceil_div`, `min`, `max`, `dtype` or `elements`"
                );
                return Err((at, message));
            }
        };
        self.expect(")")?;
        Ok(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn look_up(term: Term<'_>) -> Option<i64> {
        match term {
            Term::Name("rows") => Some(7),
            Term::Name("D") => Some(1000),
            Term::Elements("x") => Some(7000),
            _ => None,
        }
    }

    fn value(text: &str) -> i64 {
        Expression::parse(text).unwrap().evaluate(&look_up).unwrap()
    }

    fn complaint(text: &str) -> String {
        match Expression::parse(text) {
            Ok(expression) => expression.evaluate(&look_up).expect_err(text).to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn operators_bind_as_in_c_and_round_down() {
        for (text, expected) in [
            ("1 + 2 * 3 - 4", 3),
            ("(1 + 2) * 3", 9),
            ("10 - 4 - 3", 3),
            ("100 / 7 / 2", 7),
            ("-7 / 2", -4),
            ("-7 % 2", 1),
            ("7 % -2", -1),
            ("ceil_div(D, 256) * rows", 28),
            ("ceil_div(-7, 2)", -3),
            ("ceil_div(8, 4)", 2),
            ("min(D, max(3, rows))", 7),
            ("elements(x) == rows * D", 1),
            ("rows > 6 && D <= 1000", 1),
            ("rows < 7 || D != 1000", 0),
            ("!rows", 0),
            ("--3", 3),
            ("rows == 0 ? 1 : rows == 7 ? 2 : 3", 2),
            ("0 && 1 / 0", 0),
            ("1 || 1 / 0", 1),
            ("1_000_000", 1_000_000),
            (" \tD ", 1000),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn faults_say_where() {
        assert_eq!(complaint("rows / (D - 1000)"), "`rows / (D - 1000)`, character 6: division by zero");
        assert_eq!(complaint("V"), "`V`, character 1: `V` has no value here");
        assert_eq!(
            complaint("9223372036854775807 + 1"),
            "`9223372036854775807 + 1`, character 21: the number does not fit 64 bits"
        );
        assert_eq!(
            complaint("2 * 99999999999999999999"),
            "`2 * 99999999999999999999`, character 5: `99999999999999999999` is no integer of 64 bits"
        );
        assert_eq!(complaint("(rows"), "`(rows`, character 6: expected `)`");
        assert_eq!(complaint(""), "``, character 1: expected a number or a name");
        assert_eq!(complaint("rows D"), "`rows D`, character 6: expected an operator or the end, not `D`");
        assert_eq!(complaint("1 = 2"), "`1 = 2`, character 3: expected an operator or the end, not `=`");
        assert!(complaint("log2(D)").ends_with("expected `ceil_div`, `min`, `max`, `dtype` or `elements`"));
        assert!(complaint(&"(".repeat(100)).ends_with("nested deeper than 32"));
        assert!(complaint(&"1+".repeat(1000)).ends_with("longer than 512 bytes"));
        assert_eq!(complaint("é"), "`é`, character 1: expected a number or a name, not `é`");
    }

    #[test]
    fn extremes_are_faults_and_no_panics() {
        let least = "(-9223372036854775807 - 1)";
        for text in [format!("{least} / -1"), format!("-{least}"), format!("ceil_div({least}, -1)")] {
            assert!(complaint(&text).ends_with("does not fit 64 bits"), "{text}");
        }
        assert!(complaint(&format!("{least} % -1")).ends_with("does not fit 64 bits"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-+*/%()<>=!&|?:, 0-9a-c_\u{e9}]{0,60}|(ceil_div|min|max|dtype)\\([0-9a-c, -]{0,12}\\)") {
            if let Ok(expression) = Expression::parse(&text) {
                let _ = expression.evaluate(&|_| Some(3));
                prop_assert_eq!(Expression::parse(expression.text()).unwrap(), expression);
            }
        }

        #[test]
        fn division_is_that_of_the_integers(a in any::<i32>(), b in any::<i32>().prop_filter("zero", |b| *b != 0)) {
            let (a, b) = (i64::from(a), i64::from(b));
            let quotient = value(&format!("({a}) / ({b})"));
            prop_assert_eq!(quotient, (a as f64 / b as f64).floor() as i64);
            prop_assert_eq!(quotient * b + value(&format!("({a}) % ({b})")), a);
            prop_assert_eq!(value(&format!("ceil_div({a}, {b})")), (a as f64 / b as f64).ceil() as i64);
        }
    }
}
