//! Tokens to the form of a module.

use super::lexer::{Lexeme, Token, tokens};
use super::syntax::{
    Formal, Function, Initial, Kind, Number, Operand, Place, Statement, Text, Type, Variable,
};
use super::{Error, shown};

/// Scopes and lists within one another.
const DEPTH_MAX: usize = 64;

/// The form of a text.
pub(super) fn parse(text: &str) -> Result<Text, Error> {
    let lexemes = tokens(text)?;
    let mut parser = Parser { lexemes: &lexemes, at: 0, depth: 0 };
    let mut module = Text::default();
    while !parser.ended() {
        parser.top(&mut module)?;
    }
    Ok(module)
}

struct Parser<'a> {
    lexemes: &'a [Lexeme<'a>],
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn ended(&self) -> bool {
        self.at == self.lexemes.len()
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<Token<'a>> {
        self.lexemes.get(self.at + ahead).map(|lexeme| lexeme.token)
    }

    /// The line of the next token; of the last, at the end.
    fn line(&self) -> u32 {
        self.lexemes.get(self.at).or(self.lexemes.last()).map_or(1, |lexeme| lexeme.line)
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T, Error> {
        let found = match self.peek() {
            None => "the end".to_owned(),
            Some(Token::Word(word) | Token::Number(word)) => format!("`{}`", shown(word)),
            Some(Token::Text(_)) => "a string".to_owned(),
            Some(Token::Sign(sign)) => format!("`{}`", char::from(sign)),
        };
        Err(Error::Expected { line: self.line(), expected, found })
    }

    fn take_sign(&mut self, sign: u8) -> bool {
        let found = self.peek() == Some(Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    fn sign(&mut self, sign: u8, expected: &'static str) -> Result<(), Error> {
        if self.take_sign(sign) { Ok(()) } else { self.expected(expected) }
    }

    fn end(&mut self) -> Result<(), Error> {
        self.sign(b';', "`;`")
    }

    fn peek_directive(&self) -> Option<&'a str> {
        match self.peek() {
            Some(Token::Word(word)) => word.strip_prefix('.'),
            _ => None,
        }
    }

    fn take_directive(&mut self, name: &str) -> bool {
        let found = self.peek_directive() == Some(name);
        self.at += usize::from(found);
        found
    }

    fn name(&mut self) -> Result<&'a str, Error> {
        match self.peek() {
            Some(Token::Word(word)) if !word.starts_with('.') => {
                self.at += 1;
                Ok(word)
            }
            _ => self.expected("a name"),
        }
    }

    fn number(&mut self) -> Result<Number, Error> {
        let negative = self.take_sign(b'-');
        let Some(Token::Number(text)) = self.peek() else { return self.expected("a number") };
        let Some(number) = number(text) else { return self.expected("a number") };
        self.at += 1;
        Ok(match number {
            number if !negative => number,
            Number::Int(bits) => Number::Int(bits.wrapping_neg()),
            Number::Single(bits) => Number::Single(bits ^ 1 << 31),
            Number::Double(bits) => Number::Double(bits ^ 1 << 63),
        })
    }

    fn integer(&mut self) -> Result<u64, Error> {
        let at = self.at;
        match self.number()? {
            Number::Int(bits) => Ok(bits),
            _ => {
                self.at = at;
                self.expected("an integer")
            }
        }
    }

    fn small(&mut self) -> Result<u32, Error> {
        let at = self.at;
        u32::try_from(self.integer()?).or_else(|_| {
            self.at = at;
            self.expected("a number below 2^32")
        })
    }

    fn deeper(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::TooMany {
                line: self.line(),
                what: "braces within one another",
                limit: DEPTH_MAX,
            });
        }
        Ok(())
    }

    /// What is separated by commas, up to the sign.
    fn list<T>(
        &mut self,
        end: u8,
        expected: &'static str,
        mut one: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        self.deeper()?;
        let mut found = Vec::new();
        if !self.take_sign(end) {
            loop {
                found.push(one(self)?);
                if !self.take_sign(b',') {
                    break;
                }
            }
            self.sign(end, expected)?;
        }
        self.depth -= 1;
        Ok(found)
    }

    fn top(&mut self, module: &mut Text) -> Result<(), Error> {
        let line = self.line();
        let Some(directive) = self.peek_directive() else {
            if self.peek() == Some(Token::Word("@@DWARF")) || self.take_sign(b';') {
                return Ok(());
            }
            return self.expected("a directive");
        };
        self.at += 1;
        match directive {
            "version" => {
                self.number()?;
            }
            "target" => {
                self.name()?;
                while self.take_sign(b',') {
                    self.name()?;
                }
            }
            "address_size" => {
                if self.integer()? != 64 {
                    return Err(Error::AddressSize { line });
                }
            }
            "file" => self.file(module)?,
            "section" => self.section()?,
            "pragma" => self.skip_to_end()?,
            _ => {
                self.at -= 1;
                self.linked(module)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, module: &mut Text) -> Result<(), Error> {
        let number = self.small()?;
        let Some(Token::Text(path)) = self.peek() else { return self.expected("a path") };
        self.at += 1;
        module.files.push((number, path.to_owned()));
        while self.take_sign(b',') {
            self.integer()?;
        }
        Ok(())
    }

    /// What debuggers read.
    fn section(&mut self) -> Result<(), Error> {
        while !self.take_sign(b'{') {
            if self.ended() {
                return self.expected("`{`");
            }
            self.at += 1;
        }
        let mut open = 1;
        while open > 0 {
            match self.peek() {
                None => return self.expected("`}`"),
                Some(Token::Sign(b'{')) => open += 1,
                Some(Token::Sign(b'}')) => open -= 1,
                Some(_) => {}
            }
            self.at += 1;
        }
        Ok(())
    }

    fn skip_to_end(&mut self) -> Result<(), Error> {
        while !self.take_sign(b';') {
            if self.ended() {
                return self.expected("`;`");
            }
            self.at += 1;
        }
        Ok(())
    }

    /// A variable or function with how it is linked.
    fn linked(&mut self, module: &mut Text) -> Result<(), Error> {
        let mut external = false;
        loop {
            if self.take_directive("extern") {
                external = true;
            } else if !(self.take_directive("visible")
                || self.take_directive("weak")
                || self.take_directive("common"))
            {
                break;
            }
        }
        let line = self.line();
        if let Some(place) = self.place() {
            return self.variables(place, external, &mut |variable| module.variables.push(variable));
        }
        match self.peek_directive() {
            Some("entry") => {
                self.at += 1;
                let function = self.function(line, true)?;
                module.functions.push(function);
            }
            Some("func") => {
                self.at += 1;
                let function = self.function(line, false)?;
                module.functions.push(function);
            }
            Some(name) => return Err(Error::Directive { line, name: shown(name) }),
            None => return self.expected("a directive"),
        }
        Ok(())
    }

    /// The space that the next directive names, which is taken.
    fn place(&mut self) -> Option<Place> {
        let place = match self.peek_directive()? {
            "global" => Place::Global,
            "const" => Place::Const,
            "shared" => Place::Shared,
            "local" => Place::Local,
            "param" => Place::Param,
            _ => return None,
        };
        self.at += 1;
        Some(place)
    }

    fn variables(
        &mut self,
        place: Place,
        external: bool,
        keep: &mut dyn FnMut(Variable),
    ) -> Result<(), Error> {
        let (part, parts, align) = self.variable_type()?;
        loop {
            let mut variable = self.declared(place, part, parts, align)?;
            variable.external = external;
            if self.take_sign(b'=') {
                let initial = self.initial()?;
                if variable.size.is_none() {
                    variable.size = Some(match &initial {
                        Initial::List(list) => list.len() as u64 * variable.element,
                        Initial::Bytes(bytes) => bytes.len() as u64,
                        Initial::Number(_) | Initial::Address(..) => variable.element,
                    });
                }
                variable.initial = Some(initial);
            }
            keep(variable);
            if !self.take_sign(b',') {
                return self.end();
            }
        }
    }

    /// Type of a part, parts of a vector, and alignment.
    fn variable_type(&mut self) -> Result<(Type, u8, u64), Error> {
        let (mut ty, mut parts, mut align) = (None, 1, None);
        while let Some(word) = self.peek_directive() {
            let line = self.line();
            self.at += 1;
            match word {
                "align" => {
                    let at = self.at;
                    align =
                        Some(self.integer()?).filter(|align| align.is_power_of_two() && *align <= 1 << 16);
                    if align.is_none() {
                        self.at = at;
                        return self.expected("a power of two");
                    }
                }
                "v2" => parts = 2,
                "v4" => parts = 4,
                "ptr" | "managed" | "global" | "const" | "shared" | "local" => {}
                "attribute" => self.attribute()?,
                word => match Type::named(word) {
                    Some(found) if found != Type::Pred => ty = Some(found),
                    _ => return Err(Error::Directive { line, name: shown(word) }),
                },
            }
        }
        let Some(ty) = ty else { return self.expected("a type") };
        let natural = u64::from(ty.bits() / 8) * u64::from(parts);
        Ok((ty, parts, align.unwrap_or(1).max(natural)))
    }

    fn attribute(&mut self) -> Result<(), Error> {
        self.sign(b'(', "`(`")?;
        while !self.take_sign(b')') {
            if self.ended() {
                return self.expected("`)`");
            }
            self.at += 1;
        }
        Ok(())
    }

    fn declared(&mut self, place: Place, part: Type, parts: u8, align: u64) -> Result<Variable, Error> {
        let line = self.line();
        let name = self.name()?.to_owned();
        let element = u64::from(part.bits() / 8) * u64::from(parts);
        let mut size = Some(element);
        while self.take_sign(b'[') {
            if self.take_sign(b']') {
                size = None;
                continue;
            }
            let at = self.at;
            let count = self.integer()?;
            size = match size {
                None => None,
                Some(bytes) => match bytes.checked_mul(count) {
                    Some(bytes) => Some(bytes),
                    None => {
                        self.at = at;
                        return self.expected("a smaller number");
                    }
                },
            };
            self.sign(b']', "`]`")?;
        }
        Ok(Variable { line, name, place, element, align, size, part, initial: None, external: false })
    }

    fn initial(&mut self) -> Result<Initial, Error> {
        match self.peek() {
            Some(Token::Sign(b'{')) => {
                self.at += 1;
                Ok(Initial::List(self.list(b'}', "`}`", Self::initial)?))
            }
            Some(Token::Text(text)) => {
                self.at += 1;
                Ok(Initial::Bytes(text.as_bytes().to_vec()))
            }
            Some(Token::Word("generic")) => {
                self.at += 1;
                self.sign(b'(', "`(`")?;
                let found = self.initial_address()?;
                self.sign(b')', "`)`")?;
                self.added(found)
            }
            Some(Token::Word(_)) => {
                let found = self.initial_address()?;
                self.added(found)
            }
            _ => Ok(Initial::Number(self.number()?)),
        }
    }

    fn initial_address(&mut self) -> Result<(String, i64), Error> {
        Ok((self.name()?.to_owned(), self.offset()?))
    }

    /// What is added after `generic(..)` too.
    fn added(&mut self, (name, offset): (String, i64)) -> Result<Initial, Error> {
        Ok(Initial::Address(name, offset.wrapping_add(self.offset()?)))
    }

    /// `+ 4`, `+ -4`, `- 4` or nothing.
    fn offset(&mut self) -> Result<i64, Error> {
        if self.take_sign(b'+') {
            return Ok(self.integer()? as i64);
        }
        if self.take_sign(b'-') {
            return Ok((self.integer()? as i64).wrapping_neg());
        }
        Ok(0)
    }

    fn function(&mut self, line: u32, entry: bool) -> Result<Function, Error> {
        if self.take_directive("attribute") {
            self.attribute()?;
        }
        let results = if self.take_sign(b'(') { self.list(b')', "`)`", Self::formal)? } else { Vec::new() };
        let name = self.name()?.to_owned();
        let params = if self.take_sign(b'(') { self.list(b')', "`)`", Self::formal)? } else { Vec::new() };
        let mut function = Function {
            line,
            name,
            entry,
            results,
            params,
            body: None,
            required_threads: None,
            max_threads: None,
            refused: None,
        };
        while let Some(directive) = self.peek_directive() {
            let line = self.line();
            self.at += 1;
            match directive {
                "maxntid" => {
                    let [x, y, z] = self.extents()?;
                    let threads = u64::from(x) * u64::from(y);
                    let threads = threads.saturating_mul(z.into());
                    function.max_threads = Some(u32::try_from(threads).unwrap_or(u32::MAX));
                }
                "reqntid" => function.required_threads = Some(self.extents()?),
                "maxnreg" | "minnctapersm" | "maxnctapersm" | "abi_preserve" | "abi_preserve_control" => {
                    self.integer()?;
                }
                "noreturn" => {}
                "pragma" => self.skip_to_end()?,
                "reqnctapercluster" => {
                    self.extents()?;
                    function.refused = Some((line, shown(directive)));
                }
                "maxclusterrank" => {
                    self.integer()?;
                    function.refused = Some((line, shown(directive)));
                }
                "explicitcluster" | "blocksareclusters" => function.refused = Some((line, shown(directive))),
                _ => return Err(Error::Directive { line, name: shown(directive) }),
            }
        }
        if !self.take_sign(b';') {
            self.sign(b'{', "`{`")?;
            function.body = Some(self.statements()?);
        }
        Ok(function)
    }

    /// Up to three numbers; 1 for what is not said.
    fn extents(&mut self) -> Result<[u32; 3], Error> {
        let mut extents = [self.small()?, 1, 1];
        for extent in &mut extents[1..] {
            if self.take_sign(b',') {
                *extent = self.small()?;
            }
        }
        Ok(extents)
    }

    fn formal(&mut self) -> Result<Formal, Error> {
        if self.take_directive("reg") {
            let ty = self.register_type()?;
            return Ok(Formal::Register(self.name()?.to_owned(), ty));
        }
        if !self.take_directive("param") {
            return self.expected("`.param`");
        }
        let (part, parts, align) = self.variable_type()?;
        Ok(Formal::Memory(self.declared(Place::Param, part, parts, align)?))
    }

    fn register_type(&mut self) -> Result<Type, Error> {
        match self.peek_directive().and_then(Type::named) {
            Some(ty) => {
                self.at += 1;
                Ok(ty)
            }
            None => self.expected("a type"),
        }
    }

    /// Statements up to the brace that closes them.
    fn statements(&mut self) -> Result<Vec<Statement>, Error> {
        self.deeper()?;
        let mut found = Vec::new();
        while !self.take_sign(b'}') {
            self.statement(&mut found)?;
        }
        self.depth -= 1;
        Ok(found)
    }

    fn statement(&mut self, found: &mut Vec<Statement>) -> Result<(), Error> {
        let line = self.line();
        let mut push = |kind| found.push(Statement { line, kind });
        if self.take_sign(b';') {
            return Ok(());
        }
        if self.take_sign(b'{') {
            push(Kind::Scope(self.statements()?));
            return Ok(());
        }
        if self.take_sign(b'@') {
            let negated = self.take_sign(b'!');
            let guard = Some((self.name()?.to_owned(), negated));
            push(self.instruction(guard)?);
            return Ok(());
        }
        if let Some(place) = self.place() {
            return self.variables(place, false, &mut |variable| push(Kind::Variable(variable)));
        }
        if let Some(directive) = self.peek_directive() {
            self.at += 1;
            match directive {
                "reg" => push(self.registers()?),
                "loc" => push(self.location()?),
                "pragma" => self.skip_to_end()?,
                "section" => self.section()?,
                "branchtargets" => {
                    push(Kind::Targets(self.list(b';', "`;`", |parser| Ok(parser.name()?.to_owned()))?));
                }
                "callprototype" | "calltargets" => self.skip_to_end()?,
                "extern" => match self.place() {
                    Some(place) => {
                        return self.variables(place, true, &mut |variable| push(Kind::Variable(variable)));
                    }
                    None => return self.expected("a space"),
                },
                _ => return Err(Error::Directive { line, name: shown(directive) }),
            }
            return Ok(());
        }
        if self.peek_at(1) == Some(Token::Sign(b':')) {
            push(Kind::Label(self.name()?.to_owned()));
            self.at += 1;
            return Ok(());
        }
        push(self.instruction(None)?);
        Ok(())
    }

    fn registers(&mut self) -> Result<Kind, Error> {
        let parts = if self.take_directive("v2") {
            2
        } else if self.take_directive("v4") {
            4
        } else {
            1
        };
        let ty = self.register_type()?;
        let mut names = Vec::new();
        loop {
            let name = self.name()?.to_owned();
            let mut count = None;
            if self.take_sign(b'<') {
                count = Some(self.small()?);
                self.sign(b'>', "`>`")?;
            }
            names.push((name, count));
            if !self.take_sign(b',') {
                break;
            }
        }
        self.end()?;
        Ok(Kind::Registers { ty, parts, names })
    }

    /// Has no sign at its end: what follows on the line is another statement, unless a comma comes before it.
    fn location(&mut self) -> Result<Kind, Error> {
        let file = self.small()?;
        let of_file = self.small()?;
        let number = |parser: &mut Self| {
            let found = matches!(parser.peek(), Some(Token::Number(_)));
            parser.at += usize::from(found);
        };
        number(self);
        // `, function_name LABEL + 8, inlined_at 1 2 3`
        while self.take_sign(b',') {
            match self.name()? {
                "inlined_at" => (0..3).for_each(|_| number(self)),
                _ => {
                    self.name()?;
                    if self.take_sign(b'+') {
                        number(self);
                    }
                }
            }
        }
        Ok(Kind::Location { file, line: of_file })
    }

    fn instruction(&mut self, guard: Option<(String, bool)>) -> Result<Kind, Error> {
        let name = self.name()?.to_owned();
        let operands = self.list(b';', "`,` or `;`", Self::operand)?;
        Ok(Kind::Instruction { guard, name, operands })
    }

    fn operand(&mut self) -> Result<Operand, Error> {
        match self.peek() {
            Some(Token::Sign(b'{')) => {
                self.at += 1;
                Ok(Operand::Vector(self.list(b'}', "`,` or `}`", Self::operand)?))
            }
            Some(Token::Sign(b'[')) => {
                self.at += 1;
                Ok(Operand::Address(self.list(b']', "`,` or `]`", Self::operand)?))
            }
            Some(Token::Sign(b'(')) => {
                self.at += 1;
                Ok(Operand::Group(self.list(b')', "`,` or `)`", Self::operand)?))
            }
            Some(Token::Sign(b'!')) => {
                self.at += 1;
                Ok(Operand::Not(self.name()?.to_owned()))
            }
            Some(Token::Word(_)) => {
                let name = self.name()?.to_owned();
                match self.peek() {
                    Some(Token::Sign(b'|')) => {
                        self.at += 1;
                        Ok(Operand::Pair(name, self.name()?.to_owned()))
                    }
                    Some(Token::Sign(b'+' | b'-')) => {
                        let offset = self.offset()?;
                        Ok(Operand::Offset(name, offset))
                    }
                    _ => Ok(Operand::Name(name)),
                }
            }
            Some(Token::Number(_) | Token::Sign(b'-')) => Ok(Operand::Number(self.number()?)),
            _ => self.expected("an operand"),
        }
    }
}

/// The number that is written so.
fn number(text: &str) -> Option<Number> {
    let hex = |digits: &str, length| {
        (digits.len() == length).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
    };
    match text.get(..2) {
        Some("0f" | "0F") => return Some(Number::Single(hex(&text[2..], 8)? as u32)),
        Some("0d" | "0D") => return Some(Number::Double(hex(&text[2..], 16)?)),
        _ => {}
    }
    let integer = text.trim_end_matches('U');
    let parsed = match integer.get(..2) {
        Some("0x" | "0X") => u64::from_str_radix(&integer[2..], 16).ok(),
        Some("0b" | "0B") => u64::from_str_radix(&integer[2..], 2).ok(),
        _ if integer.contains(['.', 'e', 'E']) => {
            return text.parse::<f64>().ok().map(|value| Number::Double(value.to_bits()));
        }
        Some(_) if integer.starts_with('0') => u64::from_str_radix(integer, 8).ok(),
        _ => integer.parse().ok(),
    };
    parsed.map(Number::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_form() {
        for (text, expected) in [
            ("0", Number::Int(0)),
            ("42U", Number::Int(42)),
            ("0x1F", Number::Int(31)),
            ("017", Number::Int(15)),
            ("0b101", Number::Int(5)),
            ("18446744073709551615", Number::Int(u64::MAX)),
            ("0f3F800000", Number::Single(0x3f80_0000)),
            ("0d3FF0000000000000", Number::Double(1f64.to_bits())),
            ("1.5e-3", Number::Double(1.5e-3f64.to_bits())),
        ] {
            assert_eq!(number(text), Some(expected), "{text}");
        }
        for text in ["0f3F8", "0xg", "09", "1x", "0d3FF", "18446744073709551616"] {
            assert_eq!(number(text), None, "{text}");
        }
    }
}
