//! The page `docs/simt-opcodes.md`, made of the table that is tested.

use super::table::{Against, Form, table};

const HEAD: &str = "# Operations of the emulator

What `tribunal-simt` does with registers, and what holds it to that. Each form below is run on edges and on random values, by random lanes,
with results that lie where operands did, in the copy for every machine and in that for AVX2; both must give the same bits as a model that
shares no code with them, and may write nothing else. This page is made of the table of those tests (`crates/simt/src/alu/tests`).

Where the PTX ISA gives bits, results are exact. Where it gives a bound, we are nearer than that: values are computed in f64 and rounded once,
and hardware may be as far off as the last column says.

On a GPU of one's own, `cargo run --release -p tribunal-simt --example opcodes -- DIR` writes instructions for every line of this page with operands
and results, and `python benches/opcodes.py DIR` runs them there and compares bit by bit; `benches/records/` says what an H100 gave.

| operation | types | modifiers | checked against | results |
| --- | --- | --- | --- | --- |
";

const TAIL: &str = "
Choices where the PTX ISA leaves one:

- A quotient by zero is all ones, and so is the remainder; the most negative integer by -1 is itself, with remainder 0.
- A NaN that f64 computes is 0x7ff8000000000000. Other formats have the canonical NaN of the ISA, 0x7fffffff and 0x7fff.
- `.ftz` flushes results that are subnormal when they are rounded as if exponents had no lower end. `neg` and `abs` touch the sign of a NaN alone;
  an H100 gives the canonical one.
- `.ftz` of `cvt.rm` and `cvt.rp` from f32 to f16 flushes the operand, as the PTX ISA has it; an H100 does not.
- NaN is NaN in tf32; an H100 rounds it as if it were a number, and may come to infinity. `bfe` and `bfi` take the lowest 8 bits of places and lengths.
- `mma` adds product by product along the inner dimension, each sum rounded to the nearest f32 (f64 of f64); hardware adds several at once, and
  cuts off what lies below the largest.
- Atomic sums of f32 make zeros of subnormal numbers in global memory, and keep them in shared memory.
";

/// What the PTX ISA grants to hardware.
fn bound(operation: &str, types: &str) -> &'static str {
    match (operation, types) {
        ("sqrt.approx", "f32") => "relative 2^-23",
        ("rsqrt.approx", "f32") => "relative 2^-22.9",
        ("rcp.approx", "f32") => "1 unit in the last place",
        ("rcp.approx" | "rsqrt.approx", _) => "20 bits",
        ("ex2.approx", "f32") => "relative 2^-22",
        ("ex2.approx", "f16" | "f16x2") => "relative 2^-9.9",
        ("ex2.approx", _) => "relative 2^-7",
        ("lg2.approx", _) => "2^-22, absolute between 0.5 and 2, and relative beyond",
        ("sin.approx" | "cos.approx", _) => "absolute 2^-20.5 from -pi to pi",
        ("tanh.approx", "f32") => "relative 2^-11",
        ("tanh.approx", "f16" | "f16x2") => "absolute 2^-10.987",
        ("tanh.approx", _) => "absolute 2^-8",
        ("div.approx" | "div.full", _) => "2 units in the last place",
        _ => "a few units in the last place",
    }
}

fn results(form: &Form) -> String {
    match form.against {
        Against::Host => {
            format!("nearest in all but rare cases; hardware: {}", bound(form.operation, &form.types))
        }
        _ => "exact".to_owned(),
    }
}

/// Conversions have too many pairs of types to be told apart.
fn types(form: &Form) -> String {
    if form.operation != "cvt" {
        return form.types.clone();
    }
    let class = |ty: &str| match ty {
        "u8" | "s8" | "u16" | "s16" | "u32" | "s32" | "u64" | "s64" => "int".to_owned(),
        ty => ty.to_owned(),
    };
    form.types.split('.').map(class).collect::<Vec<_>>().join(".")
}

/// Adds what is not there yet.
fn add(to: &mut Vec<String>, text: String) {
    if !to.contains(&text) {
        to.push(text);
    }
}

fn page() -> String {
    // Of each operation and type its modifiers, then the types that have the same.
    let mut rows: Vec<[String; 2]> = vec![];
    let mut lines: Vec<(Vec<String>, Vec<String>, [String; 3])> = vec![];
    for form in &table() {
        let ty = types(form);
        let key = [form.operation.to_owned(), ty];
        let line = match rows.iter().position(|row| *row == key) {
            Some(line) => line,
            None => {
                let ends = [form.operation.to_owned(), form.against.text().to_owned(), results(form)];
                lines.push((vec![key[1].clone()], vec![], ends));
                rows.push(key);
                lines.len() - 1
            }
        };
        form.modifiers.iter().for_each(|text| add(&mut lines[line].1, text.clone()));
    }
    // Then the operations that differ in name alone.
    let mut merged: Vec<(Vec<String>, Vec<String>, [String; 3])> = vec![];
    for (types, modifiers, ends) in lines {
        match merged.iter_mut().find(|line| line.1 == modifiers && line.2 == ends) {
            Some(line) => line.0.extend(types),
            None => merged.push((types, modifiers, ends)),
        }
    }
    let mut joined: Vec<(Vec<String>, Vec<String>, [String; 3])> = vec![];
    for (types, modifiers, [operation, against, results]) in merged {
        let alike = joined.iter_mut().find(|line| {
            line.0 == types && line.1 == modifiers && line.2[1] == against && line.2[2] == results
        });
        match alike {
            Some(line) => line.2[0] += &format!("` `{operation}"),
            None => joined.push((types, modifiers, [operation, against, results])),
        }
    }
    let mut page = HEAD.to_owned();
    let mut row = |operation: &str, types: &str, modifiers: &str, against: &str, results: &str| {
        page.push_str(&format!("| {operation} | {types} | {modifiers} | {against} | {results} |\n"));
    };
    let names = |names: &[String]| match names {
        [] => String::new(),
        names => format!("`{}`", names.join("` `")),
    };
    for (types, modifiers, [operation, against, results]) in &joined {
        let types = types.join(", ");
        row(&format!("`{operation}`"), &types, &names(modifiers), against, results);
    }
    let rules = Against::Rules.text();
    row("`mov` of lists", "2 of b32, 2 or 4 of b16", "", Against::BitByBit.text(), "exact");
    row(
        "`mma.sync` m16n8",
        "f16, bf16 k8 k16; tf32 k4 k8; s8, u8 k16 k32; s4, u4 k32 k64; b1 k128 k256; f64 m8n8k4",
        "`.satfinite` `.and.popc` `.xor.popc`",
        "places from the tables of the PTX ISA, and exact binary fractions or integers",
        "exact products; sums in our order",
    );
    row(
        "`wmma`: loads, products, stores",
        "f16, bf16, s8, u8 m16n16k16 m32n8k16 m8n32k16; tf32 m16n16k8; f64 m8n8k4",
        "`.row` `.col` `.satfinite` `.rn`",
        "products of whole numbers, in every layout",
        "as `mma.sync`, of which they are made",
    );
    row("`ldmatrix` (the part in registers)", "m8n8 b16", "`.trans`", rules, "exact");
    let atomics = "add, min, max, and, or, xor, exch, cas, inc, dec";
    row(
        &format!("`atom`, `red` (the new value): {atomics}"),
        "integers of 16 to 64 bits, f16, bf16, f16x2, f32, f64",
        "",
        "integers of 128 bits and exact binary fractions",
        "exact",
    );
    page + TAIL
}

#[test]
fn the_page_is_what_is_tested() {
    let path = format!("{}/../../docs/simt-opcodes.md", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("WRITE_PAGES").is_some() {
        std::fs::write(&path, page()).expect("the page can be written");
    }
    let published = std::fs::read_to_string(&path).expect("the page of operations");
    assert_eq!(published, page(), "run this test with WRITE_PAGES=1 to write the page again");
}
