//! Writes a folder by which a GPU is held against the emulator: `cargo run --release -p tribunal-simt --example opcodes -- FOLDER`.
//!
//! For every operation on the page `docs/simt-opcodes.md` there are instructions ([`cases`]), many to a kernel and a few kernels to a
//! module. The folder gets the modules as PTX, `operands.bin`, what the emulator makes of them in `results.bin`, and `manifest.json`, which says
//! what is where. `benches/opcodes.py` runs it all on a GPU and compares.
//!
//! An instruction is one line of its module, so that one which a driver refuses can be left out.

mod cases;
mod page;
mod values;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

use serde::Serialize;
use tribunal_simt::execute;
use tribunal_simt::launch::{Argument, Launch, Settings};
use tribunal_simt::memory::{Memory, Role};
use tribunal_simt::ptx::Module;

use cases::{Case, Rule, cases};
use page::Row;
use values::{Kind, Type, magnitude, operands};

const BLOCK: usize = 128;
/// Cases of a kernel, and kernels of a module.
const CASES: usize = 48;
const KERNELS: usize = 8;

#[derive(Serialize)]
struct Manifest {
    block: usize,
    /// What memory holds that nobody wrote.
    poison: u8,
    groups: Vec<Group>,
    modules: Vec<Text>,
}

/// A line of the page.
#[derive(Serialize)]
struct Group {
    name: String,
    bound: Option<Bound>,
}

/// How far hardware may be off.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "kind", content = "value", rename_all = "lowercase")]
enum Bound {
    Relative(f64),
    Absolute(f64),
    Ulp(f64),
    /// Absolute between 0.5 and 2, and relative beyond.
    Logarithm(f64),
    /// Absolute from -pi to pi.
    Circle(f64),
}

#[derive(Serialize)]
struct Text {
    file: String,
    target: u32,
    kernels: Vec<Entry>,
}

type Places = Vec<(Type, usize)>;

#[derive(Serialize)]
struct Entry {
    name: String,
    threads: usize,
    /// Of each operand, its type and where it lies in `operands.bin`.
    operands: Places,
    /// Bytes of the result, and where it lies in `results.bin`.
    bytes: usize,
    at: usize,
    /// Where the sums of magnitudes lie, for sums.
    scale: Option<usize>,
    cases: Vec<Told>,
}

#[derive(Serialize)]
struct Told {
    line: usize,
    group: usize,
    text: String,
    rule: &'static str,
    /// Types of the results, and where they begin.
    results: Vec<(Type, usize)>,
}

/// The bound that a line of the page states; `None` if results are exact.
fn bound(row: &Row) -> Option<Bound> {
    let bits = |bits: f64| 2f64.powf(-bits);
    let text = match row.results.split_once("hardware: ") {
        Some((_, text)) => text,
        None => {
            assert!(row.results.starts_with("exact"), "{}: {}", row.name(), row.results);
            return None;
        }
    };
    Some(match text {
        "1 unit in the last place" => Bound::Ulp(1.0),
        "2 units in the last place" => Bound::Ulp(2.0),
        "20 bits" => Bound::Relative(bits(20.0)),
        "a few units in the last place" => Bound::Ulp(4.0),
        "2^-22, absolute between 0.5 and 2, and relative beyond" => Bound::Logarithm(bits(22.0)),
        "absolute 2^-20.5 from -pi to pi" => Bound::Circle(bits(20.5)),
        text => match text.split_once(" 2^-") {
            Some(("relative", power)) => Bound::Relative(bits(power.parse().expect("a power"))),
            Some(("absolute", power)) => Bound::Absolute(bits(power.parse().expect("a power"))),
            _ => panic!("{text} is no bound that is known"),
        },
    })
}

/// Cases that have operands, and so a kernel, in common.
type Shape = (u32, usize, Vec<Kind>, bool);

/// Cases by shape, as many to a kernel as it takes.
fn kernels(cases: &[Case]) -> Vec<Vec<&Case>> {
    let mut order: Vec<Shape> = vec![];
    let mut by_shape: HashMap<Shape, Vec<&Case>> = HashMap::new();
    for case in cases {
        let shape = (case.target, case.threads, case.operands.clone(), case.rule == Rule::Sums);
        if !by_shape.contains_key(&shape) {
            order.push(shape.clone());
        }
        by_shape.entry(shape).or_default().push(case);
    }
    // Modules of one target each.
    order.sort_by_key(|shape| shape.0);
    order.iter().flat_map(|shape| by_shape[shape].chunks(CASES).map(<[&Case]>::to_vec)).collect()
}

/// A register of the type, as it is declared.
fn declared(of: Type, name: &str) -> String {
    match of {
        Type::Pred => format!(".reg .pred {name};"),
        of => format!(".reg .b{} {name};", 8 * of.bytes()),
    }
}

/// The text of a kernel: where each case has its line, from 0, and its results their bytes.
fn text_of(name: &str, cases: &[&Case]) -> (String, Vec<(usize, Vec<usize>)>, usize) {
    let (kinds, threads) = (&cases[0].operands, cases[0].threads);
    let mut text = format!(".visible .entry {name}(.param .u64 out");
    for i in 0..kinds.len() {
        let _ = write!(text, ", .param .u64 in{i}");
    }
    text += ")\n{\n.reg .b64 %o1, %o2, %o4, %o8, %at, %base; .reg .b32 %t, %i, %s; .reg .pred %q;\n";
    text += ".shared .align 16 .b8 tile[2048];\n";
    text += "mov.u32 %t, %tid.x; mov.u32 %i, %ctaid.x;\n";
    let _ = writeln!(text, "mad.lo.u32 %i, %i, {BLOCK}, %t; cvt.u64.u32 %o1, %i;");
    text += "shl.b64 %o2, %o1, 1; shl.b64 %o4, %o1, 2; shl.b64 %o8, %o1, 3;\n";
    for (i, kind) in kinds.iter().enumerate() {
        let of = kind.of();
        let bytes = of.bytes();
        let _ = write!(
            text,
            "{} ld.param.u64 %at, [in{i}]; add.u64 %at, %at, %o{bytes}; ",
            declared(of, &format!("%x{i}"))
        );
        let _ = match of {
            Type::Pred => writeln!(text, "ld.global.u8 %s, [%at]; setp.ne.u32 %x{i}, %s, 0;"),
            _ => writeln!(text, "ld.global.b{} %x{i}, [%at];", 8 * bytes),
        };
        if kind.is_mask() {
            let _ = writeln!(
                text,
                "mov.u32 %s, %laneid; shr.u32 %s, %x{i}, %s; and.b32 %s, %s, 1; setp.eq.u32 %q, %s, 0; @%q exit;"
            );
        }
    }
    text += "ld.param.u64 %base, [out];\n";
    for bytes in [1, 2, 4, 8] {
        let _ = writeln!(text, "add.u64 %o{bytes}, %o{bytes}, %base;");
    }
    let (mut places, mut end) = (vec![], 0);
    for case in cases {
        let line = text.lines().count();
        let mut body = case.text.clone();
        let (mut declarations, mut stores, mut at) = (String::new(), String::new(), vec![]);
        for (&of, letter) in case.results.iter().zip(["d", "e", "f", "g"]) {
            let (bytes, register) = (of.bytes(), format!("%{letter}"));
            declarations += &declared(of, &register);
            declarations.push(' ');
            let _ = match of {
                Type::Pred => {
                    write!(stores, " selp.b32 %s, 1, 0, {register}; st.global.b8 [%o1+{end}], %s;")
                }
                _ => write!(stores, " st.global.b{} [%o{bytes}+{end}], {register};", 8 * bytes),
            };
            body = body.replace(&format!("@{letter}"), &format!("[%o{bytes}+{end}]"));
            body = body.replace(&format!("${letter}"), &register);
            at.push(end);
            end += bytes * threads;
        }
        for i in (0..kinds.len()).rev() {
            body = body.replace(&format!("${i}"), &format!("%x{i}"));
        }
        let _ = writeln!(text, "{{ {declarations}{body}{stores} }}");
        places.push((line, at));
    }
    text += "ret;\n}\n";
    (text, places, end)
}

fn packed(of: Type, values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()[..of.bytes()].to_vec()).collect()
}

/// What the emulator makes of it.
fn emulated(
    kernel: &tribunal_simt::program::Kernel,
    threads: usize,
    bytes: usize,
    inputs: &[Vec<u8>],
) -> Vec<u8> {
    let mut memory = Memory::new();
    let out = memory.empty("out", Role::Output, 1, bytes);
    let mut arguments = vec![Argument::Pointer(out)];
    for (i, input) in inputs.iter().enumerate() {
        let input = memory.with(&format!("in{i}"), Role::Input, 1, input.clone());
        arguments.push(Argument::Pointer(input));
    }
    let grid = [(threads / BLOCK) as u32, 1, 1];
    let launch = Launch { grid, block: [BLOCK as u32, 1, 1], shared: 0, arguments };
    let report = execute::launch(kernel, &launch, &mut memory, &Settings::default()).expect("a launch");
    assert!(report.finished && report.faults.is_empty(), "{}: {:?}", kernel.name, report.faults);
    memory.buffer(out).bytes().to_vec()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: opcodes FOLDER")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let cases = cases();
    let gaps = page::gaps(&cases);
    if !gaps.is_empty() {
        return Err(gaps.join("\n").into());
    }
    let rows = page::rows();
    let groups = rows.iter().map(|row| Group { name: row.name(), bound: bound(row) }).collect();
    let (mut operand_bytes, mut result_bytes): (Vec<u8>, Vec<u8>) = (vec![], vec![]);
    // Kernels of the same operands share them.
    let mut kept: HashMap<(Vec<Kind>, usize), Places> = HashMap::new();
    let mut modules: Vec<Text> = vec![];
    let all = kernels(&cases);
    let by_target = all.chunk_by(|a, b| a[0].target == b[0].target);
    for (number, kernels) in by_target.flat_map(|kernels| kernels.chunks(KERNELS)).enumerate() {
        let target = kernels[0][0].target;
        let mut text = format!(".version 7.8\n.target sm_{target}\n.address_size 64\n");
        let (mut entries, mut bodies) = (vec![], vec![]);
        for (index, cases) in kernels.iter().enumerate() {
            let name = format!("k{number}_{index}");
            let first = text.lines().count() + 1;
            let (body, places, bytes) = text_of(&name, cases);
            text += &body;
            let told = cases.iter().zip(places).map(|(case, (line, at))| Told {
                line: first + line,
                group: page::row_of(&rows, case).expect("gaps were looked for"),
                text: case.text.clone(),
                rule: match case.rule {
                    Rule::Page => "page",
                    Rule::Open => "open",
                    Rule::Sums => "sums",
                },
                results: case.results.iter().copied().zip(at).collect(),
            });
            bodies.push((told.collect::<Vec<_>>(), bytes));
        }
        let module = Module::parse(&text)?;
        for (index, (cases, (told, bytes))) in kernels.iter().zip(bodies).enumerate() {
            let (kinds, threads) = (&cases[0].operands, cases[0].threads);
            let seed = kept.len() as u64;
            let places = kept.entry((kinds.clone(), threads)).or_insert_with(|| {
                let values = operands(kinds, threads, seed);
                let put = |(kind, values): (&Kind, Vec<u64>)| {
                    let at = operand_bytes.len().next_multiple_of(8);
                    operand_bytes.resize(at, 0);
                    operand_bytes.extend(packed(kind.of(), &values));
                    (kind.of(), at)
                };
                kinds.iter().zip(values).map(put).collect()
            });
            let name = format!("k{number}_{index}");
            let kernel = module.kernel(&name).map_err(|error| format!("{name}: {error}\n{text}"))?;
            let inputs: Vec<Vec<u8>> = places
                .iter()
                .map(|&(of, at)| operand_bytes[at..at + of.bytes() * threads].to_vec())
                .collect();
            let at = result_bytes.len();
            result_bytes.extend(emulated(&kernel, threads, bytes, &inputs));
            let scale = (cases[0].rule == Rule::Sums).then(|| {
                let at = result_bytes.len();
                let inputs: Vec<Vec<u8>> =
                    places.iter().zip(&inputs).map(|(&(of, _), bytes)| magnitudes(of, bytes)).collect();
                result_bytes.extend(emulated(&kernel, threads, bytes, &inputs));
                at
            });
            entries.push(Entry { name, threads, operands: places.clone(), bytes, at, scale, cases: told });
        }
        let file = format!("m{number}.ptx");
        std::fs::write(folder.join(&file), text)?;
        modules.push(Text { file, target, kernels: entries });
    }
    std::fs::write(folder.join("operands.bin"), &operand_bytes)?;
    std::fs::write(folder.join("results.bin"), &result_bytes)?;
    let manifest = Manifest { block: BLOCK, poison: 0xcd, groups, modules };
    std::fs::write(folder.join("manifest.json"), serde_json::to_vec(&manifest)?)?;
    println!(
        "{} cases in {} kernels of {} modules; {} and {} bytes of operands and results",
        cases.len(),
        all.len(),
        manifest.modules.len(),
        operand_bytes.len(),
        result_bytes.len()
    );
    Ok(())
}

/// Values without their signs.
fn magnitudes(of: Type, bytes: &[u8]) -> Vec<u8> {
    let value = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        magnitude(of, u64::from_le_bytes(wide))
    };
    packed(of, &bytes.chunks(of.bytes()).map(value).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_page_is_tried() {
        assert_eq!(page::gaps(&cases()), Vec::<String>::new());
    }

    #[test]
    fn every_case_is_emulated() {
        let all = cases();
        for cases in kernels(&all) {
            let (body, ..) = text_of("k", &cases);
            let text = format!(".version 7.8\n.target sm_{}\n.address_size 64\n{body}", cases[0].target);
            let kernel = Module::parse(&text).and_then(|module| module.kernel("k"));
            kernel.unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }
}
