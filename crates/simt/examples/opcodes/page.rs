//! The page of operations, and whether every line of it is tried.

use crate::cases::{Case, HINTS, LISTS};

const PAGE: &str = include_str!("../../../../docs/simt-opcodes.md");

/// A line of the page.
pub struct Row {
    pub operations: Vec<&'static str>,
    pub types: Vec<&'static str>,
    /// Without their quotes; none if there are none.
    pub modifiers: Vec<&'static str>,
    pub results: &'static str,
}

impl Row {
    pub fn name(&self) -> String {
        let types = match &self.types[..] {
            [first, .., last] if self.types.len() > 6 => format!("{first} .. {last}"),
            types => types.join(", "),
        };
        format!("{} {types}", self.operations.join(" "))
    }

    /// Whether the operations and types of a line are words to be combined. Others describe themselves.
    fn is_list(&self) -> bool {
        !self.operations.iter().any(|operation| LISTS.contains(operation))
    }
}

fn quoted(cell: &'static str) -> Vec<&'static str> {
    cell.split('`').skip(1).step_by(2).collect()
}

pub fn rows() -> Vec<Row> {
    let lines = PAGE.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [operations, types, modifiers, _, results] = cells[..] else {
            panic!("{} cells: {line}", cells.len());
        };
        let mut operations = quoted(operations);
        // `mov` of lists is another line than `mov`.
        if let Some(list) = LISTS.iter().find(|list| line.starts_with(&format!("| {list}"))) {
            operations = vec![list];
        }
        Row { operations, types: types.split(", ").collect(), modifiers: quoted(modifiers), results }
    };
    lines.map(row).collect()
}

/// The line that a case is of.
pub fn row_of(rows: &[Row], case: &Case) -> Option<usize> {
    rows.iter().position(|row| {
        row.operations.contains(&case.operation)
            && (!row.is_list()
                || row.types.contains(&case.types.as_str())
                    && case.modifiers.iter().all(|modifier| row.modifiers.contains(modifier)))
    })
}

/// What no case tries of the page, and is not known to be no PTX; and the other way around.
pub fn gaps(cases: &[Case]) -> Vec<String> {
    let rows = rows();
    let strays = cases.iter().filter(|case| row_of(&rows, case).is_none());
    let mut gaps: Vec<String> = strays.map(|case| format!("`{}` is not on the page", case.text)).collect();
    for row in &rows {
        if !row.is_list() {
            let gives_nothing = row.operations.contains(&HINTS);
            if !gives_nothing && !cases.iter().any(|case| row.operations.contains(&case.operation)) {
                gaps.push(format!("{}: no case", row.name()));
            }
            continue;
        }
        for &operation in &row.operations {
            for &ty in &row.types {
                let modifiers = if row.modifiers.is_empty() { &[""][..] } else { &row.modifiers };
                for &modifier in modifiers {
                    let tried = cases.iter().any(|case| {
                        case.operation == operation
                            && case.types == ty
                            && (modifier.is_empty() || case.modifiers.contains(&modifier))
                    });
                    let form = || format!("{operation} {ty} {modifier}");
                    match absent(operation, ty, modifier) {
                        None if !tried => gaps.push(format!("{}: no case", form())),
                        Some(why) if tried => gaps.push(format!("{}: tried, though {why}", form())),
                        _ => {}
                    }
                }
            }
        }
    }
    gaps
}

/// Why there is no instruction for what the emulator's operations can do.
fn absent(operation: &str, ty: &str, modifier: &str) -> Option<&'static str> {
    let (to, from) = ty.split_once('.').unwrap_or((ty, ""));
    match (operation, ty, modifier) {
        (name, ..) if name.starts_with("__nv_") => Some("it is a function of libdevice"),
        ("add" | "sub", "u16" | "s16" | "u32" | "u64" | "s64", ".sat") => Some("`.sat` is for s32"),
        ("shl", "s16" | "s32" | "s64", _) => Some("a shift to the left knows no signs"),
        ("selp", "pred", _) => Some("predicates are not selected"),
        ("slct", _, _) if to == "b16" && from.is_empty() => Some("it has two types"),
        ("copysign", "f16" | "bf16", _) => Some("it is for f32 and f64"),
        ("tanh.approx", "f32", ".ftz") => Some("it has no modifiers"),
        ("set", "f32.f16" | "f32.bf16" | "f16.bf16", _) => Some("halves are compared to halves or integers"),
        ("set", "bf16.f16" | "bf16.f32", ".ftz") => Some("bf16 has no `.ftz`"),
        ("cvt", "bf16.int" | "f32.bf16" | "f64.bf16", ".sat") => Some("bf16 has no `.sat`"),
        ("set", "bf16x2.f16x2" | "f16x2.bf16x2", _) => Some("pairs are compared to pairs of their own"),
        ("min" | "max", "f64", ".NaN") => Some("f64 has no `.NaN`"),
        ("cvt", "bf16.f32", ".ftz") => Some("the emulator refuses it"),
        ("cvt", "bf16.bf16" | "bf16.f32" | "bf16.f64", ".sat" | ".rm" | ".rp") => {
            Some("the emulator refuses it")
        }
        ("cvt", "bf16.f16" | "f16.bf16", _) => Some("the emulator refuses it"),
        _ => None,
    }
}
