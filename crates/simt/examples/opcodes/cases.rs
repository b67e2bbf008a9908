//! Instructions for every operation on the page, as PTX has them.
//!
//! In a text `$0` to `$9` are operands, `$d` to `$g` results, `@d` is the address where the first result goes, `tile` shared memory of the
//! block and `%t` the thread in it.

use crate::values::{Kind, Type};

/// Operations whose lines on the page are no lists of types.
pub const LISTS: [&str; 6] =
    ["`mov` of lists", "`mma.sync` m16n8", "`ldmatrix` (the part in registers)", ATOMICS, HINTS, "`wmma`"];
pub const HINTS: &str = "`nanosleep and hints`";
const ATOMICS: &str = "`atom`, `red` (the new value)";

/// How results are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// As the page says.
    Page,
    /// The PTX ISA leaves them open.
    Open,
    /// By what is summed.
    Sums,
}

/// An instruction, or a few that make one case.
#[derive(Clone, Debug)]
pub struct Case {
    pub operation: &'static str,
    /// As on the page.
    pub types: String,
    pub modifiers: Vec<&'static str>,
    pub operands: Vec<Kind>,
    pub results: Vec<Type>,
    pub text: String,
    /// The oldest GPUs that have it: 80 or 90.
    pub target: u32,
    pub threads: usize,
    pub rule: Rule,
}

impl Case {
    fn newer(&mut self) -> &mut Case {
        self.target = 90;
        self
    }

    fn newer_if(&mut self, newer: bool) -> &mut Case {
        if newer { self.newer() } else { self }
    }

    fn rule(&mut self, rule: Rule) -> &mut Case {
        self.rule = rule;
        self
    }

    fn threads(&mut self, threads: usize) -> &mut Case {
        self.threads = threads;
        self
    }

    /// The only operand has 16 bits, and is tried with all values.
    fn all(&mut self) -> &mut Case {
        self.threads(1 << 16)
    }
}

#[derive(Default)]
struct List(Vec<Case>);

impl List {
    fn add(
        &mut self,
        (operation, types): (&'static str, impl Into<String>),
        modifiers: &[&'static str],
        operands: &[Kind],
        results: &[Type],
        text: impl Into<String>,
    ) -> &mut Case {
        self.0.push(Case {
            operation,
            types: types.into(),
            modifiers: modifiers.iter().copied().filter(|modifier| !modifier.is_empty()).collect(),
            operands: operands.into(),
            results: results.into(),
            text: text.into(),
            target: 80,
            threads: if operands.len() == 1 { 4096 } else { 2048 },
            rule: Rule::Page,
        });
        self.0.last_mut().expect("one was pushed")
    }
}

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut list = List::default();
    integers(&mut list);
    bits(&mut list);
    floats(&mut list);
    functions(&mut list);
    conversions(&mut list);
    comparisons(&mut list);
    warps(&mut list);
    products(&mut list);
    atomics(&mut list);
    list.0
}

const INTS: [(&str, u32); 6] = [("u16", 16), ("s16", 16), ("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)];

fn word(bits: u32) -> Type {
    Kind::Int(bits).of()
}

fn integers(list: &mut List) {
    for (ty, bits) in INTS {
        let (n, d, signed) = (Kind::Int(bits), [word(bits)], ty.starts_with('s'));
        for op in ["add", "sub", "mul.lo", "mul.hi", "min", "max"] {
            list.add((op, ty), &[], &[n, n], &d, format!("{op}.{ty} $d, $0, $1;"));
        }
        for op in ["div", "rem"] {
            let text = format!("{op}.{ty} $d, $0, $1;");
            list.add((op, ty), &[], &[n, Kind::Divisor(bits)], &d, text.clone());
            list.add((op, ty), &[], &[n, Kind::Zero(bits)], &d, text).rule(Rule::Open);
        }
        for op in ["mad.lo", "mad.hi", "sad"] {
            list.add((op, ty), &[], &[n, n, n], &d, format!("{op}.{ty} $d, $0, $1, $2;"));
        }
        if !signed {
            list.add(("shl", ty), &[], &[n, Kind::Amount], &d, format!("shl.b{bits} $d, $0, $1;"));
        }
        list.add(("shr", ty), &[], &[n, Kind::Amount], &d, format!("shr.{ty} $d, $0, $1;"));
        if bits < 64 {
            let (wide, d) = (Kind::Int(2 * bits), [word(2 * bits)]);
            list.add(("mul.wide", ty), &[], &[n, n], &d, format!("mul.wide.{ty} $d, $0, $1;"));
            list.add(("mad.wide", ty), &[], &[n, n, wide], &d, format!("mad.wide.{ty} $d, $0, $1, $2;"));
        }
        if signed {
            for op in ["neg", "abs"] {
                list.add((op, ty), &[], &[n], &d, format!("{op}.{ty} $d, $0;"));
            }
        }
        if ty == "s32" {
            for op in ["add", "sub"] {
                list.add((op, ty), &[".sat"], &[n, n], &d, format!("{op}.sat.{ty} $d, $0, $1;"));
            }
        }
        if bits >= 32 {
            carries(list, ty, bits);
        }
    }
    let n = Kind::Int(32);
    for (ty, signed) in [("u32", false), ("s32", true)] {
        for (op, count) in [("mul24.lo", 2), ("mul24.hi", 2), ("mad24.lo", 3), ("mad24.hi", 3)] {
            for (of, rule) in [(Kind::Int24 { signed }, Rule::Page), (n, Rule::Open)] {
                let (operands, last) =
                    if count == 2 { (vec![of, of], "") } else { (vec![of, of, n], ", $2") };
                let text = format!("{op}.{ty} $d, $0, $1{last};");
                list.add((op, ty), &[], &operands, &[Type::B32], text).rule(rule);
            }
        }
    }
    for types in ["u32.u32", "u32.s32", "s32.u32", "s32.s32"] {
        for op in ["dp4a", "dp2a.lo", "dp2a.hi"] {
            list.add((op, types), &[], &[n, n, n], &[Type::B32], format!("{op}.{types} $d, $0, $1, $2;"));
        }
    }
}

/// With a carry that comes of an operand, or becomes a result.
fn carries(list: &mut List, ty: &'static str, bits: u32) {
    let n = Kind::Int(bits);
    for (op, with) in [("add", "addc"), ("sub", "subc"), ("mad.lo", "madc.lo"), ("mad.hi", "madc.hi")] {
        let subtracts = op == "sub";
        let mut operands = vec![n; if op.starts_with("mad") { 3 } else { 2 }];
        let sources: Vec<String> = (0..operands.len()).map(|i| format!("${i}")).collect();
        let sources = sources.join(", ");
        let bit = format!("${}", operands.len());
        operands.push(Kind::Bit);
        let set = match subtracts {
            true => format!("sub.cc.u32 t, 0, {bit};"),
            false => format!("add.cc.u32 t, {bit}, 0xffffffff;"),
        };
        for (input, output) in [(false, true), (true, false), (true, true)] {
            let name = if input { with } else { op };
            let modifiers = [if input { "c" } else { "" }, if output { ".cc" } else { "" }];
            let (before, cc) = (if input { &*set } else { "" }, modifiers[1]);
            let first = format!(".reg .b32 t; {before} {name}{cc}.{ty}");
            let text = format!("{first} $d, {sources};");
            list.add((op, ty), &modifiers, &operands, &[word(bits)], text);
            if output {
                let read = if subtracts { "subc" } else { "addc" };
                let text = format!(".reg .b{bits} u; {first} u, {sources}; {read}.u32 $d, 0, 0;");
                list.add((op, ty), &modifiers, &operands, &[Type::B32], text);
            }
        }
    }
}

fn bits(list: &mut List) {
    let (n, amount) = (Kind::Int(32), Kind::Amount);
    for (ty, kind) in [("b16", Kind::Int(16)), ("b32", n), ("b64", Kind::Int(64)), ("pred", Kind::Pred)] {
        let d = [kind.of()];
        for op in ["and", "or", "xor"] {
            list.add((op, ty), &[], &[kind, kind], &d, format!("{op}.{ty} $d, $0, $1;"));
        }
        for op in ["not", "mov"] {
            list.add((op, ty), &[], &[kind], &d, format!("{op}.{ty} $d, $0;"));
        }
        if ty == "pred" {
            continue;
        }
        list.add(("selp", ty), &[], &[kind, kind, Kind::Pred], &d, format!("selp.{ty} $d, $0, $1, $2;"));
        list.add(("cnot", ty), &[], &[kind], &d, format!("cnot.{ty} $d, $0;"));
        for (by, of) in [("s32", n), ("f32", Kind::Float(Type::F32))] {
            let types = format!("{ty}.{by}");
            let text = format!("slct.{types} $d, $0, $1, $2;");
            list.add(("slct", types), &[], &[kind, kind, of], &d, text);
        }
        if ty == "b16" {
            continue;
        }
        for op in ["popc", "clz"] {
            list.add((op, ty), &[], &[kind], &[Type::B32], format!("{op}.{ty} $d, $0;"));
        }
        list.add(("brev", ty), &[], &[kind], &d, format!("brev.{ty} $d, $0;"));
        let text = format!("bfi.{ty} $d, $0, $1, $2, $3;");
        for (of, rule) in [(Kind::Byte, Rule::Page), (amount, Rule::Open)] {
            list.add(("bfi", ty), &[], &[kind, kind, of, of], &d, text.clone()).rule(rule);
        }
    }
    for (ty, bits) in INTS.into_iter().filter(|(_, bits)| *bits > 16) {
        let kind = Kind::Int(bits);
        for shift in ["", ".shiftamt"] {
            list.add(("bfind", ty), &[shift], &[kind], &[Type::B32], format!("bfind{shift}.{ty} $d, $0;"));
        }
        let text = format!("bfe.{ty} $d, $0, $1, $2;");
        for (of, rule) in [(Kind::Byte, Rule::Page), (amount, Rule::Open)] {
            list.add(("bfe", ty), &[], &[kind, of, of], &[kind.of()], text.clone()).rule(rule);
        }
    }
    for table in (0..256).step_by(5) {
        let text = format!("lop3.b32 $d, $0, $1, $2, {table};");
        list.add(("lop3", "b32"), &[], &[n, n, n], &[Type::B32], text);
    }
    for wrap in [".clamp", ".wrap"] {
        for way in [".l", ".r"] {
            let text = format!("shf{way}{wrap}.b32 $d, $0, $1, $2;");
            list.add(("shf", "b32"), &[way, wrap], &[n, n, amount], &[Type::B32], text);
        }
        let text = format!("bmsk{wrap}.b32 $d, $0, $1;");
        list.add(("bmsk", "b32"), &[wrap], &[amount, amount], &[Type::B32], text);
    }
    for mode in ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"] {
        let text = format!("prmt.b32{mode} $d, $0, $1, $2;");
        list.add(("prmt", "b32"), &[mode], &[n, n, n], &[Type::B32], text);
    }
    let h = Kind::Int(16);
    for (operands, d, whole) in
        [(vec![n; 2], Type::B64, "b64"), (vec![h; 2], Type::B32, "b32"), (vec![h; 4], Type::B64, "b64")]
    {
        let sources: Vec<String> = (0..operands.len()).map(|i| format!("${i}")).collect();
        let results = ["$d", "$e", "$f", "$g"][..operands.len()].join(", ");
        let text = format!("mov.{whole} $d, {{{}}};", sources.join(", "));
        list.add((LISTS[0], ""), &[], &operands, &[d], text);
        let parts: Vec<Type> = operands.iter().map(|kind| kind.of()).collect();
        let whole_kind = if d == Type::B64 { Kind::Int(64) } else { n };
        list.add((LISTS[0], ""), &[], &[whole_kind], &parts, format!("mov.{whole} {{{results}}}, $0;"));
    }
}

const FLOATS: [(&str, Type); 6] = [
    ("f16", Type::F16),
    ("bf16", Type::Bf16),
    ("f16x2", Type::F16x2),
    ("bf16x2", Type::Bf16x2),
    ("f32", Type::F32),
    ("f64", Type::F64),
];
const ROUNDS: [&str; 4] = [".rn", ".rz", ".rm", ".rp"];
const FTZ: [&str; 2] = ["", ".ftz"];
const SAT: [&str; 2] = ["", ".sat"];

fn floats(list: &mut List) {
    for (ty, of) in FLOATS {
        let (n, d) = (Kind::Float(of), [of]);
        let bf16 = matches!(of, Type::Bf16 | Type::Bf16x2);
        let (rounds, flushes, saturates): (&[&str], &[&str], &[&str]) = match of {
            Type::F32 => (&ROUNDS, &FTZ, &SAT),
            Type::F64 => (&ROUNDS, &[""], &[""]),
            _ if bf16 => (&[".rn"], &[""], &[""]),
            _ => (&[".rn"], &FTZ, &SAT),
        };
        for (round, ftz, sat) in combined(rounds, flushes, saturates) {
            let mode = format!("{round}{ftz}{sat}");
            for op in ["add", "sub", "mul"] {
                let text = format!("{op}{mode}.{ty} $d, $0, $1;");
                list.add((op, ty), &[round, ftz, sat], &[n, n], &d, text).newer_if(bf16);
            }
            let text = format!("fma{mode}.{ty} $d, $0, $1, $2;");
            list.add(("fma", ty), &[round, ftz, sat], &[n, n, n], &d, text);
            if !matches!(of, Type::F32 | Type::F64) && sat.is_empty() {
                let text = format!("fma{mode}.relu.{ty} $d, $0, $1, $2;");
                list.add(("fma", ty), &[round, ftz, ".relu"], &[n, n, n], &d, text);
            }
            if matches!(of, Type::F32 | Type::F64) && sat.is_empty() {
                list.add(("div", ty), &[round, ftz], &[n, n], &d, format!("div{mode}.{ty} $d, $0, $1;"));
                for op in ["sqrt", "rcp"] {
                    list.add((op, ty), &[round, ftz], &[n], &d, format!("{op}{mode}.{ty} $d, $0;"));
                }
            }
        }
        for &ftz in flushes {
            for nan in if of == Type::F64 { &[""][..] } else { &["", ".NaN"] } {
                for op in ["min", "max"] {
                    let text = format!("{op}{ftz}{nan}.{ty} $d, $0, $1;");
                    list.add((op, ty), &[ftz, nan], &[n, n], &d, text);
                }
            }
            for op in ["neg", "abs"] {
                list.add((op, ty), &[ftz], &[n], &d, format!("{op}{ftz}.{ty} $d, $0;"));
            }
        }
        if matches!(of, Type::F32 | Type::F64) {
            list.add(("copysign", ty), &[], &[n, n], &d, format!("copysign.{ty} $d, $0, $1;"));
        }
    }
}

/// All of the first with all of the others.
fn combined(
    a: &[&'static str],
    b: &[&'static str],
    c: &[&'static str],
) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut all = vec![];
    for &a in a {
        for &b in b {
            all.extend(c.iter().map(|&c| (a, b, c)));
        }
    }
    all
}

fn functions(list: &mut List) {
    let (n, d) = (Kind::Float(Type::F32), [Type::F32]);
    for ftz in FTZ {
        for op in [
            "sqrt.approx",
            "rsqrt.approx",
            "rcp.approx",
            "ex2.approx",
            "lg2.approx",
            "sin.approx",
            "cos.approx",
        ] {
            list.add((op, "f32"), &[ftz], &[n], &d, format!("{op}{ftz}.f32 $d, $0;")).threads(8192);
        }
        for op in ["div.approx", "div.full"] {
            let text = format!("{op}{ftz}.f32 $d, $0, $1;");
            list.add((op, "f32"), &[ftz], &[n, n], &d, text).threads(8192);
        }
    }
    list.add(("tanh.approx", "f32"), &[], &[n], &d, "tanh.approx.f32 $d, $0;").threads(8192);
    let n = Kind::Float(Type::F64);
    for (op, text) in [
        ("rcp.approx", "rcp.approx.ftz.f64"),
        ("rsqrt.approx", "rsqrt.approx.f64"),
        ("rsqrt.approx", "rsqrt.approx.ftz.f64"),
    ] {
        let ftz = if text.contains(".ftz") { ".ftz" } else { "" };
        list.add((op, "f64"), &[ftz], &[n], &[Type::F64], format!("{text} $d, $0;"));
    }
    for (ty, of) in &FLOATS[..4] {
        let newer = ty.starts_with("bf");
        let ftz = if newer { ".ftz" } else { "" };
        for (op, ftz) in [("ex2.approx", ftz), ("tanh.approx", "")] {
            let text = format!("{op}{ftz}.{ty} $d, $0;");
            list.add((op, *ty), &[ftz], &[Kind::Float(*of)], &[*of], text).newer_if(newer).all();
        }
    }
}

fn conversions(list: &mut List) {
    const INTS: [(&str, u32); 8] = [
        ("u8", 32),
        ("s8", 32),
        ("u16", 16),
        ("s16", 16),
        ("u32", 32),
        ("s32", 32),
        ("u64", 64),
        ("s64", 64),
    ];
    const FLOATS: [(&str, Type); 4] =
        [("f16", Type::F16), ("bf16", Type::Bf16), ("f32", Type::F32), ("f64", Type::F64)];
    const INTEGRAL: [&str; 4] = [".rni", ".rzi", ".rmi", ".rpi"];
    for (to, to_bits) in INTS {
        for (from, bits) in INTS {
            for sat in if fits(from, to) { &SAT[..1] } else { &SAT } {
                let text = format!("cvt{sat}.{to}.{from} $d, $0;");
                list.add(("cvt", "int.int"), &[sat], &[Kind::Int(bits)], &[word(to_bits)], text);
            }
        }
        for (from, of) in FLOATS {
            // Of bf16 and bytes, ptxas knows nothing.
            if of == Type::Bf16 && to.ends_with('8') {
                continue;
            }
            let saturates = if of == Type::Bf16 { &SAT[..1] } else { &SAT };
            let flushes: &[&str] = if of == Type::F32 { &FTZ } else { &[""] };
            for (round, ftz, _) in combined(&INTEGRAL, flushes, &[""]) {
                let text = format!("cvt{round}{ftz}.{to}.{from} $d, $0;");
                let types = format!("int.{from}");
                list.add(("cvt", types), &[round, ftz], &[Kind::Float(of)], &[word(to_bits)], text)
                    .newer_if(of == Type::Bf16);
            }
            for (round, sat, _) in combined(&ROUNDS, saturates, &[""]) {
                let text = format!("cvt{round}{sat}.{from}.{to} $d, $0;");
                let types = format!("{from}.int");
                list.add(("cvt", types), &[round, sat], &[Kind::Int(to_bits)], &[of], text)
                    .newer_if(of == Type::Bf16);
            }
        }
    }
    for (to, to_of) in FLOATS {
        for (from, of) in FLOATS {
            let (kind, types) = (Kind::Float(of), format!("{to}.{from}"));
            let newer = [to, from].contains(&"bf16");
            let flushes: &[&str] = if [to, from].contains(&"f32") { &FTZ } else { &[""] };
            let narrows = to_of.bytes() < of.bytes();
            if to_of.bytes() == of.bytes() && to != from {
                continue;
            }
            if (to, from) == ("bf16", "f32") {
                for (round, relu, _) in combined(&[".rn", ".rz"], &["", ".relu"], &[""]) {
                    let text = format!("cvt{round}{relu}.{types} $d, $0;");
                    list.add(("cvt", &*types), &[round, relu], &[kind], &[to_of], text);
                }
                continue;
            }
            let rounds: &[&str] = match (narrows, to == from) {
                (true, _) => &ROUNDS,
                (_, true) => &["", ".rni", ".rzi", ".rmi", ".rpi"],
                _ => &[""],
            };
            let rounds = if narrows && to == "bf16" { &rounds[..2] } else { rounds };
            let saturates = if newer { &SAT[..1] } else { &SAT };
            for (round, ftz, sat) in combined(rounds, flushes, saturates) {
                let text = format!("cvt{round}{ftz}{sat}.{types} $d, $0;");
                // Hardware flushes nothing in these, whatever the PTX ISA says.
                if to == "f16" && ftz == ".ftz" && [".rm", ".rp"].contains(&round) {
                    let plain = [Kind::Plain(of)];
                    list.add(("cvt", &*types), &[round, ftz, sat], &plain, &[to_of], text.clone());
                    list.add(("cvt", &*types), &[], &[kind], &[to_of], text).rule(Rule::Open);
                    continue;
                }
                let case = list.add(("cvt", &*types), &[round, ftz, sat], &[kind], &[to_of], text);
                case.newer_if(newer);
                if of.bytes() == 2 && to_of.bytes() > 2 {
                    case.all();
                }
            }
            if (to, from) == ("f16", "f32") {
                for round in [".rn", ".rz"] {
                    let text = format!("cvt{round}.relu.f16.f32 $d, $0;");
                    list.add(("cvt", &*types), &[round, ".relu"], &[kind], &[to_of], text);
                }
            }
        }
    }
    let n = Kind::Float(Type::F32);
    for (ty, of) in [("f16x2", Type::F16x2), ("bf16x2", Type::Bf16x2)] {
        for (round, relu, _) in combined(&[".rn", ".rz"], &["", ".relu"], &[""]) {
            let text = format!("cvt{round}{relu}.{ty}.f32 $d, $0, $1;");
            list.add(("cvt", format!("{ty}.f32")), &[round, relu], &[n, n], &[of], text);
        }
    }
    let text = "cvt.rna.tf32.f32 $d, $0;";
    list.add(("cvt", "tf32.f32"), &[".rna"], &[Kind::Plain(Type::F32)], &[Type::F32], text);
    list.add(("cvt", "tf32.f32"), &[".rna"], &[n], &[Type::F32], text).rule(Rule::Open);
}

/// Whether every value of an integer is one of another.
fn fits(from: &str, to: &str) -> bool {
    let bits = |ty: &str| ty[1..].parse::<u32>().unwrap_or_default();
    let signed = |ty: &str| ty.starts_with('s');
    match (signed(from), signed(to)) {
        (true, false) => false,
        (false, true) => bits(from) < bits(to),
        _ => bits(from) <= bits(to),
    }
}

const COMPARES: [&str; 14] = [
    ".eq", ".ne", ".lt", ".le", ".gt", ".ge", ".equ", ".neu", ".ltu", ".leu", ".gtu", ".geu", ".num", ".nan",
];

fn comparisons(list: &mut List) {
    let ints = INTS.map(|(ty, bits)| (ty, Kind::Int(bits)));
    let types = ints.into_iter().chain(FLOATS.map(|(ty, of)| (ty, Kind::Float(of))));
    for (ty, kind) in types {
        let float = matches!(kind, Kind::Float(_));
        let pair = matches!(kind, Kind::Float(Type::F16x2 | Type::Bf16x2));
        let bf16 = ty.starts_with("bf");
        let flushes: &[&str] = if ["f16", "f16x2", "f32"].contains(&ty) { &FTZ } else { &[""] };
        let compares = if float { &COMPARES[..] } else { &COMPARES[..6] };
        let joins = ["", ".and", ".or", ".xor", ".and!"];
        for (compare, join, ftz) in combined(compares, &joins, flushes) {
            let (join, not) = if join == ".and!" { (".and", "!") } else { (join, "") };
            let (operands, with) = match join {
                "" => (vec![kind, kind], String::new()),
                _ => (vec![kind, kind, Kind::Pred], format!(", {not}$2")),
            };
            let modifiers = [compare, join, ftz];
            // Single halves have no second result.
            let half = ["f16", "bf16"].contains(&ty);
            let results = if half { "$d" } else { "$d|$e" };
            let text = format!("setp{compare}{join}{ftz}.{ty} {results}, $0, $1{with};");
            list.add(("setp", ty), &modifiers, &operands, &[Type::Pred; 2][usize::from(half)..], text)
                .newer_if(bf16)
                .threads(1024);
            if join == ".xor" || not == "!" {
                continue;
            }
            for (to, name, of) in [
                ("b32", "u32", Type::B32),
                ("f32", "f32", Type::F32),
                (if pair { "f16x2" } else { "f16" }, "", if pair { Type::F16x2 } else { Type::F16 }),
                (if pair { "bf16x2" } else { "bf16" }, "", if pair { Type::Bf16x2 } else { Type::Bf16 }),
            ] {
                if !is_set(to, ty) || !ftz.is_empty() && to == "bf16" {
                    continue;
                }
                let name = if name.is_empty() { to } else { name };
                let text = format!("set{compare}{join}{ftz}.{name}.{ty} $d, $0, $1{with};");
                list.add(("set", format!("{to}.{ty}")), &modifiers, &operands, &[of], text)
                    .newer_if(bf16 || to.starts_with("bf"))
                    .threads(1024);
                if half && to == "b32" {
                    let text = format!("set{compare}{join}{ftz}.u16.{ty} $d, $0, $1{with};");
                    list.add(("set", format!("{to}.{ty}")), &modifiers, &operands, &[Type::B16], text)
                        .newer_if(bf16)
                        .threads(1024);
                }
            }
        }
    }
    for (ty, of) in [("f32", Type::F32), ("f64", Type::F64)] {
        for test in [".finite", ".infinite", ".number", ".notanumber", ".normal", ".subnormal"] {
            let text = format!("testp{test}.{ty} $d, $0;");
            list.add(("testp", ty), &[test], &[Kind::Float(of)], &[Type::Pred], text);
        }
    }
}

/// Whether `set` has such a result of such operands.
pub fn is_set(to: &str, from: &str) -> bool {
    match from {
        "f16x2" => ["b32", "f16x2"].contains(&to),
        "bf16x2" => ["b32", "bf16x2"].contains(&to),
        "f16" => to != "f32",
        "bf16" => ["b32", "bf16"].contains(&to),
        _ => true,
    }
}

fn warps(list: &mut List) {
    let (n, d) = (Kind::Int(32), [Type::B32]);
    for (kind, clamp) in [(".up", 0x1000), (".down", 0x101f), (".bfly", 0x101f), (".idx", 0x101f)] {
        let both = [Type::B32, Type::Pred];
        let text = format!("shfl.sync{kind}.b32 $d|$e, $0, $1, $2, 0xffffffff;");
        list.add(("shfl.sync", "b32"), &[kind], &[n, Kind::Amount, Kind::Segment], &both, text);
        // Within 16 lanes; `.bfly` heeds no lower end.
        let text = format!(".reg .b32 t; and.b32 t, $1, 15; shfl.sync{kind}.b32 $d|$e, $0, t, {clamp}, $2;");
        list.add(("shfl.sync", "b32"), &[kind], &[n, Kind::Amount, Kind::HalfMask], &both, text);
    }
    for not in ["", "!"] {
        for (kind, ty, of) in [
            (".all", "pred", Type::Pred),
            (".any", "pred", Type::Pred),
            (".uni", "pred", Type::Pred),
            (".ballot", "b32", Type::B32),
        ] {
            let text = format!("vote.sync{kind}.{ty} $d, {not}$0, $1;");
            list.add(("vote.sync", ty), &[kind], &[Kind::Pred, Kind::Mask], &[of], text.clone());
            // All lanes have 0 here.
            let alike = format!(".reg .pred q; setp.ne.u32 q, $0, 0; {}", text.replace("$0", "q"));
            list.add(("vote.sync", ty), &[kind], &[Kind::Zero(32), Kind::Mask], &[of], alike);
        }
    }
    for (ty, bits) in [("b32", 32), ("b64", 64)] {
        let operands = [Kind::Few(bits), Kind::Mask];
        let text = format!("match.any.sync.{ty} $d, $0, $1;");
        list.add(("match.sync", ty), &[".any"], &operands, &d, text);
        let text = format!("match.all.sync.{ty} $d|$e, $0, $1;");
        list.add(("match.sync", ty), &[".all"], &operands, &[Type::B32, Type::Pred], text);
    }
    for (op, name, ty) in [
        (".add", "u32", "u32"),
        (".min", "u32", "u32"),
        (".max", "u32", "u32"),
        (".and", "b32", "u32"),
        (".or", "b32", "u32"),
        (".xor", "b32", "u32"),
        (".add", "s32", "s32"),
        (".min", "s32", "s32"),
        (".max", "s32", "s32"),
    ] {
        let text = format!("redux.sync{op}.{name} $d, $0, $1;");
        list.add(("redux.sync", ty), &[op], &[n, Kind::Mask], &d, text);
    }
    list.add(("activemask", "b32"), &[], &[Kind::Mask], &d, "activemask.b32 $d;");
    for (count, results) in [(1, "$d"), (2, "$d, $e"), (4, "$d, $e, $f, $g")] {
        for trans in ["", ".trans"] {
            let text = format!(
                ".reg .b32 t; mov.u32 t, tile; mad.lo.u32 t, %t, 16, t; st.shared.v4.b32 [t], {{$0, $1, $2, $3}}; \
                 bar.warp.sync 0xffffffff; ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{results}}}, [t]; \
                 bar.warp.sync 0xffffffff;"
            );
            list.add((LISTS[2], ""), &[trans], &[n; 4], &vec![Type::B32; count], text);
        }
    }
    // Where values lie in registers is open, so that what is compared is a product of matrices in memory.
    let halves = Kind::Small(Type::F16x2);
    for a in ["row", "col"] {
        for b in ["row", "col"] {
            let registers = |name| (0..8).map(|i| format!("{name}{i}")).collect::<Vec<_>>().join(", ");
            let (in_a, in_b) = (registers("a"), registers("b"));
            let text = format!(
                ".reg .b32 t, w, a<8>, b<8>, c<4>; mov.u32 w, tile; mad.lo.u32 t, %t, 16, w; and.b32 c0, %t, -32; \
                 mad.lo.u32 w, c0, 16, w; st.shared.v4.b32 [t], {{$0, $1, $2, $3}}; bar.warp.sync 0xffffffff; \
                 wmma.load.a.sync.aligned.{a}.m16n16k16.shared.f16 {{{in_a}}}, [w], 16; \
                 wmma.load.b.sync.aligned.{b}.m16n16k16.shared.f16 {{{in_b}}}, [w], 16; \
                 wmma.load.c.sync.aligned.row.m16n16k16.shared.f16 {{c0, c1, c2, c3}}, [w], 16; \
                 wmma.mma.sync.aligned.{a}.{b}.m16n16k16.f16.f16 {{c0, c1, c2, c3}}, {{{in_a}}}, {{{in_b}}}, {{c0, c1, c2, c3}}; \
                 bar.warp.sync 0xffffffff; wmma.store.d.sync.aligned.row.m16n16k16.shared.f16 [w], {{c0, c1, c2, c3}}, 16; \
                 bar.warp.sync 0xffffffff; ld.shared.v4.b32 {{$d, $e, $f, $g}}, [t]; bar.warp.sync 0xffffffff;"
            );
            list.add((LISTS[5], ""), &[], &[halves; 4], &[Type::F16x2; 4], text);
        }
    }
}

fn products(list: &mut List) {
    let pairs = [Type::F16x2, Type::Bf16x2];
    let mut add = |k: usize, types: [&str; 4], input: Kind, sum: Kind, rule, satfinite: &'static str| {
        let bits = match types[1] {
            "f16" | "bf16" => 16,
            "tf32" => 32,
            "s8" | "u8" => 8,
            _ => 4,
        };
        let a = 16 * k * bits / 1024;
        let sums = if sum.of() == Type::F16x2 { 2 } else { 4 };
        let mut operands = vec![input; a + a / 2];
        operands.extend(vec![sum; sums]);
        let range = |from: usize, count: usize| {
            let registers: Vec<String> = (from..from + count).map(|i| format!("${i}")).collect();
            registers.join(", ")
        };
        let results = ["$d", "$e", "$f", "$g"][..sums].join(", ");
        let text = format!(
            "mma.sync.aligned.m16n8k{k}.row.col{satfinite}.{} {{{results}}}, {{{}}}, {{{}}}, {{{}}};",
            types.join("."),
            range(0, a),
            range(a, a / 2),
            range(a + a / 2, sums)
        );
        list.add((LISTS[1], ""), &[satfinite], &operands, &vec![sum.of(); sums], text)
            .threads(1024)
            .rule(rule);
    };
    type Make = fn(Type) -> Kind;
    for (make, rule) in [(Kind::Small as Make, Rule::Page), (Kind::Tame, Rule::Sums)] {
        for k in [8, 16] {
            add(k, ["f32", "f16", "f16", "f32"], make(pairs[0]), make(Type::F32), rule, "");
            add(k, ["f16", "f16", "f16", "f16"], make(pairs[0]), make(pairs[0]), rule, "");
            add(k, ["f32", "bf16", "bf16", "f32"], make(pairs[1]), make(Type::F32), rule, "");
        }
        for k in [4, 8] {
            add(k, ["f32", "tf32", "tf32", "f32"], make(Type::F32), make(Type::F32), rule, "");
        }
    }
    for (narrow, ks, [u, s]) in [(8, [16, 32], ["u8", "s8"]), (4, [32, 64], ["u4", "s4"])] {
        debug_assert!(narrow <= 8);
        for k in ks {
            for (a, b) in [(u, u), (u, s), (s, u), (s, s)] {
                for satfinite in ["", ".satfinite"] {
                    let n = Kind::Int(32);
                    add(k, ["s32", a, b, "s32"], n, n, Rule::Page, satfinite);
                }
            }
        }
    }
    let whole = |list: &mut List, modifier, operands: &[Kind], results: &[Type], rule, text: String| {
        list.add((LISTS[1], ""), &[modifier], operands, results, text).threads(1024).rule(rule);
    };
    for (k, a, b, c) in
        [(128, "$0, $1", "$2", "$3, $4, $5, $6"), (256, "$0, $1, $2, $3", "$4, $5", "$6, $7, $8, $9")]
    {
        for logic in [".and.popc", ".xor.popc"] {
            let text = format!(
                "mma.sync.aligned.m16n8k{k}.row.col.s32.b1.b1.s32{logic} {{$d, $e, $f, $g}}, {{{a}}}, {{{b}}}, {{{c}}};"
            );
            whole(list, logic, &vec![Kind::Int(32); 4 + 3 * k / 128], &[Type::B32; 4], Rule::Page, text);
        }
    }
    for (kind, rule) in [(Kind::Small(Type::F64), Rule::Page), (Kind::Tame(Type::F64), Rule::Sums)] {
        let text = "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {$d, $e}, {$0}, {$1}, {$2, $3};";
        whole(list, "", &[kind; 4], &[Type::F64; 2], rule, text.to_owned());
    }
}

fn atomics(list: &mut List) {
    // Name of the type, of loads of it, what it is, and the operations.
    const SUMS: &[&str] = &["add"];
    let types: [(&str, Type, &[&str]); 13] = [
        ("u32", Type::B32, &["add", "min", "max", "inc", "dec"]),
        ("s32", Type::B32, &["add", "min", "max"]),
        ("u64", Type::B64, &["add", "min", "max"]),
        ("s64", Type::B64, &["min", "max"]),
        ("b16", Type::B16, &["cas"]),
        ("b32", Type::B32, &["and", "or", "xor", "exch", "cas"]),
        ("b64", Type::B64, &["and", "or", "xor", "exch", "cas"]),
        ("f16", Type::F16, SUMS),
        ("f16x2", Type::F16x2, SUMS),
        ("bf16", Type::Bf16, SUMS),
        ("bf16x2", Type::Bf16x2, SUMS),
        ("f32", Type::F32, SUMS),
        ("f64", Type::F64, SUMS),
    ];
    for (ty, of, ops) in types {
        let bits = 8 * of.bytes();
        let kind = match of {
            Type::B16 | Type::B32 | Type::B64 => Kind::Int(bits as u32),
            of => Kind::Float(of),
        };
        let noftz = if ty.contains("f16") { ".noftz" } else { "" };
        for &op in ops {
            for (space, cell) in [("global", "@d"), ("shared", "[t]")] {
                let (operands, sources) = match op {
                    "cas" => (vec![kind; 3], "$1, $2"),
                    _ => (vec![kind; 2], "$1"),
                };
                let here = ".reg .b32 t; mov.u32 t, tile; mad.lo.u32 t, %t, 16, t;";
                let begin = format!("{here} st.volatile.{space}.b{bits} {cell}, $0;");
                let end = format!("ld.volatile.{space}.b{bits} $d, {cell};");
                let name = format!("{space}.{op}{noftz}.{ty}");
                let text = format!("{begin} atom.{name} $e, {cell}, {sources}; {end}");
                list.add((ATOMICS, ""), &[], &operands, &[of, of], text).newer_if(ty.starts_with("bf"));
                if !["cas", "exch"].contains(&op) {
                    let text = format!("{begin} red.{name} {cell}, {sources}; {end}");
                    list.add((ATOMICS, ""), &[], &operands, &[of], text).newer_if(ty.starts_with("bf"));
                }
            }
        }
    }
    // All threads of a block at one address.
    for op in
        ["add.u32", "add.u64", "min.s32", "max.u64", "and.b32", "or.b64", "xor.b32", "inc.u32", "dec.u32"]
    {
        let bits: u32 = if op.ends_with("64") { 64 } else { 32 };
        let kind =
            if op.starts_with("inc") || op.starts_with("dec") { Kind::Zero(32) } else { Kind::Int(bits) };
        let text = format!(
            ".reg .pred q; .reg .b{bits} u; mov.b{bits} u, 77; setp.eq.u32 q, %t, 0; @q st.shared.b{bits} [tile], u; \
             or.b{bits} u, $0, {}; bar.sync 0; red.shared.{op} [tile], u; bar.sync 0; ld.shared.b{bits} $d, [tile]; bar.sync 0;",
            if bits == 32 && kind == Kind::Zero(32) { 100 } else { 0 }
        );
        list.add((ATOMICS, ""), &[], &[kind], &[word(bits)], text);
    }
}
