//! `wmma`: products of all shapes, types and layouts, of small whole numbers, for which every order of sums gives the same.

mod support;

use support::{kernel, kinds, run, u32s};
use tribunal_simt::launch::Schedule;
use tribunal_simt::memory::{Buffer, Memory, Pointer, Role};

const SHAPES: [(&str, [usize; 3]); 5] = [
    ("m16n16k16", [16, 16, 16]),
    ("m32n8k16", [32, 8, 16]),
    ("m8n32k16", [8, 32, 16]),
    ("m16n16k8", [16, 16, 8]),
    ("m8n8k4", [8, 8, 4]),
];

/// Types of `a` and `b` and of sums, the types of a product as they are written, and registers of `a`, `b` and sums in each shape.
struct Types {
    input: &'static str,
    sums: &'static str,
    product: &'static str,
    registers: [[usize; 3]; 5],
}

const TYPES: [Types; 7] = [
    Types {
        input: "f16",
        sums: "f32",
        product: "f32.f32",
        registers: [[8, 8, 8], [8, 8, 8], [8, 8, 8], [0; 3], [0; 3]],
    },
    Types {
        input: "f16",
        sums: "f16",
        product: "f16.f16",
        registers: [[8, 8, 4], [8, 8, 4], [8, 8, 4], [0; 3], [0; 3]],
    },
    Types {
        input: "bf16",
        sums: "f32",
        product: "f32.bf16.bf16.f32",
        registers: [[4, 4, 8], [8, 2, 8], [2, 8, 8], [0; 3], [0; 3]],
    },
    Types {
        input: "tf32",
        sums: "f32",
        product: "f32.tf32.tf32.f32",
        registers: [[0; 3], [0; 3], [0; 3], [4, 4, 8], [0; 3]],
    },
    Types {
        input: "s8",
        sums: "s32",
        product: "s32.s8.s8.s32",
        registers: [[2, 2, 8], [4, 1, 8], [1, 4, 8], [0; 3], [0; 3]],
    },
    Types {
        input: "u8",
        sums: "s32",
        product: "satfinite.s32.u8.u8.s32",
        registers: [[2, 2, 8], [4, 1, 8], [1, 4, 8], [0; 3], [0; 3]],
    },
    Types {
        input: "f64",
        sums: "f64",
        product: "rn.f64.f64.f64.f64",
        registers: [[0; 3], [0; 3], [0; 3], [0; 3], [1, 1, 2]],
    },
];

/// A whole number below 2048 as the bits of a type.
fn bits(ty: &str, value: i32) -> u64 {
    let float = (value as f32).to_bits();
    let narrow = match ty {
        "f64" => return f64::from(value).to_bits(),
        "f16" if value == 0 => 0,
        "f16" => float >> 16 & 0x8000 | ((float >> 23 & 0xff) - 112) << 10 | float >> 13 & 0x3ff,
        "bf16" => float >> 16,
        "f32" | "tf32" => float,
        _ => value as u32,
    };
    narrow.into()
}

fn bytes_of(ty: &str) -> usize {
    match ty {
        "s8" | "u8" => 1,
        "f16" | "bf16" => 2,
        "f64" => 8,
        _ => 4,
    }
}

/// A matrix in memory.
struct Matrix {
    rows: usize,
    columns: usize,
    ty: &'static str,
    row_major: bool,
    stride: usize,
}

impl Matrix {
    fn new([rows, columns]: [usize; 2], ty: &'static str, row_major: bool, padded: bool) -> Matrix {
        let padding = if padded { 16 / bytes_of(ty) } else { 0 };
        let stride = if row_major { columns } else { rows } + padding;
        Matrix { rows, columns, ty, row_major, stride }
    }

    fn layout(&self) -> &'static str {
        if self.row_major { "row" } else { "col" }
    }

    /// What is written of the stride: nothing where it is as long as a row or a column.
    fn stride(&self) -> String {
        let least = if self.row_major { self.columns } else { self.rows };
        if self.stride == least { String::new() } else { format!(", {}", self.stride) }
    }

    fn bytes(&self) -> usize {
        self.stride * if self.row_major { self.rows } else { self.columns } * bytes_of(self.ty)
    }

    /// Where an element is.
    fn at(&self, row: usize, column: usize) -> usize {
        let index = if self.row_major { row * self.stride + column } else { column * self.stride + row };
        index * bytes_of(self.ty)
    }

    fn give(&self, memory: &mut Memory, name: &str, value: impl Fn(usize, usize) -> i32) -> Pointer {
        let mut bytes = vec![0xee; self.bytes()];
        for row in 0..self.rows {
            for column in 0..self.columns {
                let (at, size) = (self.at(row, column), bytes_of(self.ty));
                bytes[at..at + size]
                    .copy_from_slice(&bits(self.ty, value(row, column)).to_le_bytes()[..size]);
            }
        }
        memory.add(Buffer::with(name, Role::Input, bytes_of(self.ty) as u8, bytes))
    }
}

fn registers(ty: &str, first: usize, count: usize) -> String {
    let kind = if ty == "f64" { "fd" } else { "r" };
    let names: Vec<String> = (first..first + count).map(|index| format!("%{kind}{index}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// Numbers in a small range, that of bytes without a sign from zero on.
fn number(ty: &str, row: usize, column: usize) -> i32 {
    let value = (row * 7 + column * 5 + row * column) % 5;
    if ty == "u8" { value as i32 } else { value as i32 - 2 }
}

#[test]
fn products_of_every_shape_type_and_layout_are_right() {
    let mut tried = 0;
    for types in &TYPES {
        for ((shape, [m, n, k]), [of_a, of_b, of_sums]) in SHAPES.into_iter().zip(types.registers) {
            for layouts in (0..16).filter(|_| of_a > 0) {
                let is = |bit: u32| layouts >> bit & 1 == 1;
                let a = Matrix::new([m, k], types.input, is(0), is(3));
                let b = Matrix::new([k, n], types.input, is(1), is(3));
                let c = Matrix::new([m, n], types.sums, is(2), is(3));
                let d = Matrix::new([m, n], types.sums, is(2) != is(0), !is(3));
                let space = if is(1) { ".global" } else { "" };
                let load = |matrix: &str, of: &Matrix, to: String, from: &str| {
                    format!(
                        "wmma.load.{matrix}.sync.aligned.{}.{shape}{space}.{} {to}, [{from}]{};\n",
                        of.layout(),
                        of.ty,
                        of.stride()
                    )
                };
                let [in_a, in_b, in_c] = [(0, of_a), (8, of_b), (16, of_sums)]
                    .map(|(first, count)| registers(types.input, first, count));
                let body = [
                    (0..4).map(|index| format!("ld.param.u64 %rd{index}, [p{index}];\n")).collect(),
                    load("a", &a, in_a.clone(), "%rd0"),
                    load("b", &b, in_b.clone(), "%rd1"),
                    load("c", &c, in_c.clone(), "%rd2"),
                    format!(
                        "wmma.mma.sync.aligned.{}.{}.{shape}.{} {in_c}, {in_a}, {in_b}, {in_c};\n",
                        a.layout(),
                        b.layout(),
                        types.product
                    ),
                    format!(
                        "wmma.store.d.sync.aligned.{}.{shape}{space}.{} [%rd3], {in_c}{};\nret;\n",
                        d.layout(),
                        d.ty,
                        d.stride()
                    ),
                ]
                .concat();
                let mut memory = Memory::new();
                let pointers = [
                    a.give(&mut memory, "a", |i, l| number(types.input, i, l)),
                    b.give(&mut memory, "b", |l, j| number(types.input, l, j)),
                    c.give(&mut memory, "c", |i, j| number("c", j, i)),
                    memory.add(Buffer::empty("d", Role::Output, bytes_of(d.ty) as u8, d.bytes())),
                ];
                let report = run(&kernel(4, "", &body), 1, 32, &mut memory, &pointers, Schedule::Forward);
                assert_eq!(kinds(&report), [], "{body}");
                let found = memory.buffer(pointers[3]).bytes();
                for i in 0..m {
                    for j in 0..n {
                        let of = |l| number(types.input, i, l) * number(types.input, l, j);
                        let due = bits(d.ty, number("c", j, i) + (0..k).map(of).sum::<i32>()).to_le_bytes();
                        let (at, size) = (d.at(i, j), bytes_of(d.ty));
                        assert_eq!(found[at..at + size], due[..size], "row {i}, column {j}\n{body}");
                    }
                }
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 16 * (5 * 3 + 2));
}

/// Through shared memory, by an address in a register of 32 bits, and what every lane does with its values.
#[test]
fn values_may_be_changed_between_a_load_and_a_product() {
    let body = "
        ld.param.u64 %rd0, [p0]; ld.param.u64 %rd1, [p1];
        mov.u32 %r31, tile; mov.u32 %r30, %laneid; shl.b32 %r29, %r30, 4; add.u32 %r28, %r31, %r29;
        cvt.u64.u32 %rd2, %r29; add.u64 %rd3, %rd0, %rd2;
        ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%rd3];
        st.shared.v4.b32 [%r28], {%r0, %r1, %r2, %r3};
        bar.warp.sync -1;
        wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%r31];
        wmma.load.b.sync.aligned.col.m16n16k16.shared.f16 {%r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15}, [tile], 16;
        add.rn.f16x2 %r0, %r0, %r0; add.rn.f16x2 %r1, %r1, %r1; add.rn.f16x2 %r2, %r2, %r2; add.rn.f16x2 %r3, %r3, %r3;
        add.rn.f16x2 %r4, %r4, %r4; add.rn.f16x2 %r5, %r5, %r5; add.rn.f16x2 %r6, %r6, %r6; add.rn.f16x2 %r7, %r7, %r7;
        wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7},
            {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, {%r8, %r9, %r10, %r11, %r12, %r13, %r14, %r15},
            {0f00000000, 0f00000000, 0f00000000, 0f00000000, 0f00000000, 0f00000000, 0f00000000, 0f00000000};
        wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};
        ret;";
    let kernel = kernel(2, ".shared .align 32 .b8 tile[512];", body);
    let x = Matrix::new([16, 16], "f16", true, false);
    for schedule in support::SCHEDULES {
        let mut memory = Memory::new();
        let pointers = [
            x.give(&mut memory, "x", |i, j| number("f16", i, j)),
            memory.add(Buffer::empty("d", Role::Output, 4, 1024)),
        ];
        let report = run(&kernel, 1, 32, &mut memory, &pointers, schedule);
        assert_eq!(kinds(&report), []);
        let found = u32s(&memory, pointers[1]);
        for (index, found) in found.into_iter().enumerate() {
            let of = |l| 2 * number("f16", index / 16, l) * number("f16", index % 16, l);
            assert_eq!(f32::from_bits(found), (0..16).map(of).sum::<i32>() as f32, "element {index}");
        }
    }
}
