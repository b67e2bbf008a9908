//! A kernel of a module as a list of steps over virtual registers, in which the functions that it calls are put in.

use std::collections::{BTreeSet, HashMap};

use super::syntax::{Formal, Function, Kind, Operand, Place, Statement, Type, Variable};
use super::{Error, INSTRUCTIONS_MAX, Module, flow, shown, slots};
use crate::address;
use crate::program::{
    Access, Bits, Conversion, Format, Kernel, NEVER, Op, Order, Param, Preset, Scalar, Site, Space,
};

/// Bytes of parameters of a kernel.
const PARAM_BYTES_MAX: u64 = 32_764;
/// Bytes of shared memory that variables of a kernel may have.
const SHARED_BYTES_MAX: u64 = 1 << 20;
/// Bytes of local memory of a thread.
const LOCAL_BYTES_MAX: u64 = 512 << 10;
/// Calls and scopes within one another.
const DEPTH_MAX: usize = 128;
/// What a scope costs by itself, in statements.
const SCOPE_WEIGHT: usize = 16;
/// Statements that are looked at, again in every call of a function.
const VISITED_MAX: usize = 4 * INSTRUCTIONS_MAX;
/// Virtual registers.
const REGISTERS_MAX: usize = 1 << 21;

/// A virtual register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Value(pub u32);

/// An operand or a result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Slot {
    #[default]
    None,
    Value(Value),
    /// Index of a list.
    List(u32),
}

impl From<Value> for Slot {
    fn from(value: Value) -> Slot {
        Slot::Value(value)
    }
}

/// In which file a register is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum File {
    W32,
    W64,
    Pred,
}

/// What is known of a virtual register.
#[derive(Debug, Clone, Copy)]
pub(super) struct Register {
    pub file: File,
    /// 1, 8, 16, 32 or 64.
    pub bits: u8,
    pub preset: Option<Preset>,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Work {
    /// Branches have labels as targets.
    Op(Op),
    /// Nothing: the step is left out.
    Nothing,
    /// Reads what was put into the parameter space for a call.
    Take { block: u32, offset: u32, bytes: u8, signed: bool },
    /// Puts a value there.
    Put { block: u32, offset: u32, bytes: u8 },
    /// The address of what is there.
    Where { block: u32, offset: u32 },
}

/// A step of a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub work: Work,
    pub guard: Option<(Value, bool)>,
    pub d: Slot,
    pub e: Slot,
    pub a: Slot,
    pub b: Slot,
    pub c: Slot,
    pub f: Slot,
    pub site: Site,
}

impl Step {
    /// One that does something to nothing yet.
    pub fn new(op: Op) -> Step {
        let none = Slot::None;
        let site = Site::default();
        Step { work: Work::Op(op), guard: None, d: none, e: none, a: none, b: none, c: none, f: none, site }
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy)]
enum Symbol<'m> {
    Register(Value),
    /// The first of the parts of a vector, and how many there are.
    Vector(Value, u8),
    Variable(&'m Variable),
    /// A parameter of the kernel: offset and bytes.
    Parameter(u32, u32),
    /// A variable in the parameter space of a call.
    Block(u32),
    Label(u32),
    Targets(&'m [String]),
}

/// A result in a list that is not wanted.
pub(super) const SINK: Value = Value(u32::MAX);

/// Where what is passed to a function lies.
enum Home {
    /// In registers, by offset.
    Registers(Vec<(u32, Value)>),
    /// In local memory, from there on.
    Local(u64),
}

/// The register of the part at an offset.
fn part(parts: &[(u32, Value)], offset: u32) -> Value {
    let found = parts.binary_search_by_key(&offset, |(begins, _)| *begins);
    parts[found.expect("every part that is read or written was noted")].1
}

fn local(bytes: u8, signed: bool, bits: u8) -> Access {
    let signed = signed && u32::from(bytes) * 8 < bits.into();
    let wide = bits == 64;
    Access {
        space: Space::Local,
        bytes,
        count: 1,
        signed,
        wide,
        wide_address: true,
        offset: 0,
        order: Order::Weak,
        noncoherent: false,
    }
}

/// A value of so many bytes to a register of so many bits.
pub(super) fn widened(bytes: u8, signed: bool, bits: u8) -> Op {
    let from = scalar(bytes, signed);
    let to = scalar(bits / 8, signed);
    match bits {
        _ if 8 * bytes < bits && (signed || bits == 64) => Op::Convert(to, from, Conversion::default()),
        64 => Op::Mov(Bits::B64),
        32 => Op::Mov(Bits::B32),
        _ => Op::Mov(Bits::B16),
    }
}

/// The lower bytes of a register of so many bits.
pub(super) fn narrowed(bits: u8, bytes: u8) -> Op {
    match bits {
        _ if 8 * bytes < bits => {
            Op::Convert(scalar(bytes, false), scalar(bits / 8, false), Conversion::default())
        }
        64 => Op::Mov(Bits::B64),
        32 => Op::Mov(Bits::B32),
        _ => Op::Mov(Bits::B16),
    }
}

/// The integer of so many bytes.
pub(super) fn scalar(bytes: u8, signed: bool) -> Scalar {
    match (bytes, signed) {
        (1, false) => Scalar::U8,
        (1, true) => Scalar::S8,
        (2, false) => Scalar::U16,
        (2, true) => Scalar::S16,
        (4, false) => Scalar::U32,
        (4, true) => Scalar::S32,
        (_, false) => Scalar::U64,
        (_, true) => Scalar::S64,
    }
}

/// Names of a scope.
#[derive(Default)]
struct Names<'m> {
    symbols: HashMap<&'m str, Symbol<'m>>,
    /// Registers that are declared as a range, by prefix: count, type, parts.
    ranges: HashMap<&'m str, (u32, Type, u8)>,
}

impl Names<'_> {
    /// The type and parts of a register of a range.
    fn in_range(&self, name: &str) -> Option<(Type, u8)> {
        const DIGITS_MAX: usize = 10;
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count().min(DIGITS_MAX);
        (name.len() - digits..name.len()).find_map(|at| {
            let (prefix, number) = name.split_at(at);
            let &(count, ty, parts) = self.ranges.get(prefix)?;
            let plain = number == "0" || !number.starts_with('0');
            (plain && number.parse::<u32>().is_ok_and(|number| number < count)).then_some((ty, parts))
        })
    }
}

/// A variable in the parameter space of a call.
struct Block {
    bytes: u64,
    align: u64,
    /// Whether its address was taken, or was added to at run time.
    addressed: bool,
    /// Offset and bytes of what is read and written.
    parts: BTreeSet<(u32, u8)>,
}

/// What a name is worth as an operand.
#[derive(Debug, Clone, Copy)]
pub(super) enum Named {
    Value(Value),
    Vector(Value, u8),
    /// The address of a variable, and where it is.
    Address {
        bits: u64,
        place: Place,
    },
    Parameter(u32, u32),
    Block(u32),
    Label(u32),
}

/// Makes steps.
pub(super) struct Builder<'m> {
    module: &'m Module,
    pub registers: Vec<Register>,
    presets: HashMap<(File, u8, Preset), Value>,
    pub steps: Vec<Step>,
    pub lists: Vec<Box<[Value]>>,
    /// Labels that are targets of indexed branches.
    pub tables: Vec<Box<[u32]>>,
    /// Step of each label.
    pub labels: Vec<Option<u32>>,
    pub formats: Vec<Format>,
    scopes: Vec<Names<'m>>,
    blocks: Vec<Block>,
    /// Functions that are being put in.
    calls: Vec<&'m str>,
    /// Where each variable of shared and local memory is, by its address here.
    offsets: HashMap<*const Variable, u32>,
    shared_bytes: u64,
    local_bytes: u64,
    /// Alignment of what is sized by the launch, if there is such.
    dynamic_align: Option<u64>,
    /// Where that begins.
    dynamic_begins: u64,
    /// Calls and scopes that are open, and statements that were looked at.
    depth: usize,
    visited: usize,
    /// Where a function returns to; `None` in the kernel.
    pub returns: Option<u32>,
    site: Site,
    guard: Option<(Value, bool)>,
    instruction: &'m str,
}

/// A kernel whose values have no registers yet.
pub(super) struct Lowered<'m> {
    pub builder: Builder<'m>,
    pub flow: flow::Flow,
    params: Vec<Param>,
    param_bytes: u32,
    shared_bytes: u64,
}

/// The steps of a kernel.
pub(super) fn lower<'m>(module: &'m Module, function: &'m Function) -> Result<Lowered<'m>, Error> {
    if let Some((line, directive)) = &function.refused {
        return Err(Error::Newer { line: *line, what: format!(".{directive}"), needs: "sm_90" });
    }
    let mut builder = Builder::new(module, 0);
    let mut params = builder.kernel(function)?;
    // What is sized by the launch comes after all else in shared memory, and how much that is, is known only now.
    let begins = builder.dynamic_align.map(|align| builder.shared_bytes.next_multiple_of(align.max(16)));
    if let Some(begins @ 1..) = begins {
        builder = Builder::new(module, begins);
        params = builder.kernel(function)?;
    }
    let shared_bytes = begins.unwrap_or(builder.shared_bytes);
    let (params, param_bytes) = params;
    builder.settle()?;
    builder.fold();
    builder.know_formats();
    let flow = flow::flow(&mut builder)?;
    Ok(Lowered { builder, flow, params, param_bytes, shared_bytes })
}

/// Where each instruction comes from; what a compiler left without a line has that of the one before.
fn sites(steps: &[Step]) -> Vec<Site> {
    let mut last: Option<Site> = None;
    let site = |step: &Step| {
        if step.site.line > 0 {
            last = Some(step.site);
        }
        last.map_or(step.site, |last| Site { ptx: step.site.ptx, ..last })
    };
    steps.iter().map(site).collect()
}

/// Most bytes of shared memory that a kernel itself may size: no assembler of NVIDIA's takes more.
const SHARED_STATIC_MAX: usize = 48 << 10;

/// A kernel as it runs.
pub(super) fn kernel(module: &Module, function: &Function) -> Result<Kernel, Error> {
    let Lowered { builder, flow, params, param_bytes, shared_bytes } = lower(module, function)?;
    if shared_bytes as usize > SHARED_STATIC_MAX {
        let what = "bytes of shared memory sized by the kernel; what is more a launch must ask for";
        return Err(Error::TooMany { line: function.line, what, limit: SHARED_STATIC_MAX });
    }
    let allocated = slots::allocate(&builder, &flow)?;
    Ok(Kernel {
        name: function.name.clone(),
        params,
        param_bytes,
        code: allocated.code,
        sites: sites(&flow.steps),
        files: module.files.clone(),
        regs32: allocated.counts[0],
        regs64: allocated.counts[1],
        preds: allocated.counts[2],
        presets32: allocated.presets32,
        presets64: allocated.presets64,
        presets_pred: allocated.presets_pred,
        tables: flow.tables,
        lists: allocated.lists,
        shared_bytes: shared_bytes as u32,
        local_bytes: builder.local_bytes as u32,
        variables: module.variables.clone(),
        required_threads: function.required_threads,
        max_threads: function.max_threads,
        formats: builder.formats,
    })
}

impl<'m> Builder<'m> {
    fn new(module: &'m Module, dynamic_begins: u64) -> Builder<'m> {
        Builder {
            module,
            registers: Vec::new(),
            presets: HashMap::new(),
            steps: Vec::new(),
            lists: Vec::new(),
            tables: Vec::new(),
            labels: Vec::new(),
            formats: Vec::new(),
            scopes: vec![Names::default()],
            blocks: Vec::new(),
            calls: Vec::new(),
            offsets: HashMap::new(),
            shared_bytes: 0,
            local_bytes: 0,
            dynamic_align: None,
            dynamic_begins,
            depth: 0,
            visited: 0,
            returns: None,
            site: Site::default(),
            guard: None,
            instruction: "",
        }
    }

    /// Steps of a kernel, and its parameters with their bytes.
    fn kernel(&mut self, function: &'m Function) -> Result<(Vec<Param>, u32), Error> {
        let params = self.parameters(function)?;
        self.calls.push(&function.name);
        self.statements(function.body.as_deref().unwrap_or_default())?;
        self.guard = None;
        self.emit(Step::new(Op::Exit))?;
        Ok(params)
    }

    fn parameters(&mut self, function: &'m Function) -> Result<(Vec<Param>, u32), Error> {
        let mut params = Vec::new();
        let mut end = 0u64;
        for formal in &function.params {
            let Formal::Memory(variable) = formal else {
                let (line, name) = (function.line, shown(&function.name));
                return Err(Error::Operand {
                    line,
                    instruction: ".entry".to_owned(),
                    operand: name,
                    why: "parameters of a kernel are not in registers",
                });
            };
            let offset = end.next_multiple_of(variable.align);
            end = offset.saturating_add(variable.size.unwrap_or(u64::MAX));
            if end > PARAM_BYTES_MAX {
                let (line, limit) = (variable.line, PARAM_BYTES_MAX as usize);
                return Err(Error::TooMany { line, what: "bytes of parameters", limit });
            }
            let (offset, size) = (offset as u32, (end - offset) as u32);
            self.define(variable.line, &variable.name, Symbol::Parameter(offset, size))?;
            params.push(Param { name: variable.name.clone(), offset, size });
        }
        Ok((params, end as u32))
    }

    // Names

    fn define(&mut self, line: u32, name: &'m str, symbol: Symbol<'m>) -> Result<(), Error> {
        let scope = self.scopes.last_mut().expect("there is a scope");
        match scope.symbols.insert(name, symbol) {
            None => Ok(()),
            Some(_) => Err(Error::Twice { line, name: shown(name) }),
        }
    }

    fn find(&mut self, name: &'m str) -> Result<Option<Symbol<'m>>, Error> {
        for index in (0..self.scopes.len()).rev() {
            let scope = &self.scopes[index];
            if let Some(symbol) = scope.symbols.get(name) {
                return Ok(Some(*symbol));
            }
            if let Some((ty, parts)) = scope.in_range(name) {
                let symbol = self.declare(ty, parts)?;
                self.scopes[index].symbols.insert(name, symbol);
                return Ok(Some(symbol));
            }
        }
        let variables = &self.module.text.variables;
        Ok(self.module.by_name.get(name).map(|&index| Symbol::Variable(&variables[index])))
    }

    fn declare(&mut self, ty: Type, parts: u8) -> Result<Symbol<'m>, Error> {
        if ty == Type::B128 {
            return Err(Error::NotEmulated { line: self.site.ptx, what: ".b128".to_owned() });
        }
        let first = self.register(ty.bits())?;
        if parts == 1 {
            return Ok(Symbol::Register(first));
        }
        for _ in 1..parts {
            self.register(ty.bits())?;
        }
        Ok(Symbol::Vector(first, parts))
    }

    /// A new virtual register of so many bits.
    pub fn register(&mut self, bits: u8) -> Result<Value, Error> {
        let file = match bits {
            1 => File::Pred,
            64 => File::W64,
            _ => File::W32,
        };
        self.add(Register { file, bits, preset: None })
    }

    fn add(&mut self, register: Register) -> Result<Value, Error> {
        if self.registers.len() >= REGISTERS_MAX {
            return Err(Error::TooMany { line: self.site.ptx, what: "registers", limit: REGISTERS_MAX });
        }
        self.registers.push(register);
        Ok(Value(self.registers.len() as u32 - 1))
    }

    /// The register that holds a preset.
    pub fn preset(&mut self, bits: u8, preset: Preset) -> Result<Value, Error> {
        let file = match bits {
            1 => File::Pred,
            64 => File::W64,
            _ => File::W32,
        };
        if let Some(&value) = self.presets.get(&(file, bits, preset)) {
            return Ok(value);
        }
        let value = self.add(Register { file, bits, preset: Some(preset) })?;
        self.presets.insert((file, bits, preset), value);
        Ok(value)
    }

    /// The register that holds these bits.
    pub fn constant(&mut self, bits: u8, value: u64) -> Result<Value, Error> {
        self.preset(bits, Preset::Bits(value))
    }

    pub fn bits(&self, value: Value) -> u8 {
        self.registers[value.0 as usize].bits
    }

    /// What a name of the text stands for.
    pub fn named(&mut self, name: &'m str) -> Result<Named, Error> {
        if let Some(part) = self.part(name)? {
            return Ok(Named::Value(part));
        }
        match self.find(name)? {
            Some(Symbol::Register(value)) => Ok(Named::Value(value)),
            Some(Symbol::Vector(first, parts)) => Ok(Named::Vector(first, parts)),
            Some(Symbol::Parameter(offset, size)) => Ok(Named::Parameter(offset, size)),
            Some(Symbol::Block(block)) => Ok(Named::Block(block)),
            Some(Symbol::Label(label)) => Ok(Named::Label(label)),
            Some(Symbol::Variable(variable)) => self.variable(name, variable),
            Some(Symbol::Targets(_)) => Err(self.operand(name, "a list of targets has no value")),
            None if name == "WARP_SZ" => Ok(Named::Value(self.constant(32, 32)?)),
            None if name.starts_with('%') => Ok(Named::Value(self.special(name)?)),
            None if self.module.functions.contains_key(name) => {
                Err(self.operand(name, "addresses of functions are not emulated"))
            }
            None => Err(Error::Undefined { line: self.site.ptx, name: shown(name) }),
        }
    }

    /// `vector.x` and its kind.
    fn part(&mut self, name: &'m str) -> Result<Option<Value>, Error> {
        let Some((vector, part)) = name.rsplit_once('.') else { return Ok(None) };
        let index = match part {
            "x" | "r" => 0,
            "y" | "g" => 1,
            "z" | "b" => 2,
            "w" | "a" => 3,
            _ => return Ok(None),
        };
        match self.find(vector)? {
            Some(Symbol::Vector(first, parts)) if index < parts.into() => Ok(Some(Value(first.0 + index))),
            _ => Ok(None),
        }
    }

    fn special(&mut self, name: &str) -> Result<Value, Error> {
        use crate::program::Special;
        let line = self.site.ptx;
        let axis = |axis: &str| match axis {
            "x" => Some(0),
            "y" => Some(1),
            "z" => Some(2),
            _ => None,
        };
        let special = match name.split_once('.') {
            Some((base, part)) => match (base, axis(part)) {
                ("%tid", Some(axis)) => Special::Tid(axis),
                ("%ntid", Some(axis)) => Special::Ntid(axis),
                ("%ctaid", Some(axis)) => Special::Ctaid(axis),
                ("%nctaid", Some(axis)) => Special::Nctaid(axis),
                ("%clusterid" | "%nclusterid" | "%cluster_ctaid" | "%cluster_nctaid", _) => {
                    return Err(Error::Newer { line, what: shown(name), needs: "sm_90" });
                }
                _ => return Err(Error::Undefined { line, name: shown(name) }),
            },
            None => match name {
                "%laneid" => Special::LaneId,
                "%warpid" => Special::WarpId,
                "%nwarpid" => Special::NwarpId,
                "%lanemask_eq" => Special::LanemaskEq,
                "%lanemask_lt" => Special::LanemaskLt,
                "%lanemask_le" => Special::LanemaskLe,
                "%lanemask_gt" => Special::LanemaskGt,
                "%lanemask_ge" => Special::LanemaskGe,
                "%smid" => Special::Smid,
                "%nsmid" => Special::Nsmid,
                "%gridid" => Special::Gridid,
                "%dynamic_smem_size" => Special::DynamicShared,
                "%total_smem_size" => Special::TotalShared,
                "%is_explicit_cluster" | "%cluster_ctarank" | "%cluster_nctarank" | "%aggr_smem_size" => {
                    return Err(Error::Newer { line, what: shown(name), needs: "sm_90" });
                }
                "%clock" | "%clock64" | "%clock_hi" | "%globaltimer" | "%globaltimer_lo"
                | "%globaltimer_hi" => {
                    return Err(self.operand(name, "time is not emulated"));
                }
                // What a grid that waits for all its blocks is told of: where it may count them.
                "%envreg1" | "%envreg2" => {
                    let index = self.module.variables.len() as u32 - 1;
                    let address = address::generic(address::VARIABLES + index, 0);
                    let half = if name == "%envreg1" { address >> 32 } else { address & u64::from(u32::MAX) };
                    return self.constant(32, half);
                }
                _ if name.starts_with("%envreg") || name.starts_with("%pm") => {
                    return Err(Error::NotEmulated { line, what: shown(name) });
                }
                _ => return Err(Error::Undefined { line, name: shown(name) }),
            },
        };
        self.preset(32, Preset::Special(special))
    }

    /// The address of a variable.
    fn variable(&mut self, name: &str, variable: &'m Variable) -> Result<Named, Error> {
        let place = |bytes: &mut u64, limit, what| {
            let offset = bytes.next_multiple_of(variable.align);
            let end = offset.saturating_add(variable.size.unwrap_or(0));
            if end > limit {
                return Err(Error::TooMany { line: variable.line, what, limit: limit as usize });
            }
            *bytes = end;
            Ok(offset as u32)
        };
        let key = std::ptr::from_ref(variable);
        match variable.place {
            Place::Global | Place::Const => {
                let index = self.module.by_name.get(name);
                match index.and_then(|index| self.module.segments.get(index)) {
                    Some(&segment) => {
                        Ok(Named::Address { bits: address::generic(segment, 0), place: variable.place })
                    }
                    None => Err(Error::Undefined { line: self.site.ptx, name: shown(name) }),
                }
            }
            Place::Shared if variable.size.is_none() || variable.external => {
                self.dynamic_align = self.dynamic_align.max(Some(variable.align));
                Ok(Named::Address { bits: self.dynamic_begins, place: Place::Shared })
            }
            Place::Shared => {
                if !self.offsets.contains_key(&key) {
                    let offset = place(&mut self.shared_bytes, SHARED_BYTES_MAX, "bytes of shared memory")?;
                    self.offsets.insert(key, offset);
                }
                Ok(Named::Address { bits: self.offsets[&key].into(), place: variable.place })
            }
            Place::Local => {
                if !self.offsets.contains_key(&key) {
                    let offset = place(&mut self.local_bytes, LOCAL_BYTES_MAX, "bytes of local memory")?;
                    self.offsets.insert(key, offset);
                }
                Ok(Named::Address { bits: self.offsets[&key].into(), place: variable.place })
            }
            Place::Param => Err(Error::NotEmulated { line: variable.line, what: shown(name) }),
        }
    }

    // Statements

    /// Counts what is looked at, so that a short text cannot stand for endless work.
    fn visit(&mut self, line: u32, count: usize) -> Result<(), Error> {
        self.visited = self.visited.saturating_add(count);
        if self.visited > VISITED_MAX {
            return Err(Error::TooMany { line, what: "statements", limit: VISITED_MAX });
        }
        Ok(())
    }

    /// A scope of its own.
    fn statements(&mut self, statements: &'m [Statement]) -> Result<(), Error> {
        let line = statements.first().map_or(self.site.ptx, |statement| statement.line);
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::TooMany {
                line,
                what: "calls and scopes within one another",
                limit: DEPTH_MAX,
            });
        }
        self.visit(line, statements.len() + SCOPE_WEIGHT)?;
        self.scopes.push(Names::default());
        for (index, statement) in statements.iter().enumerate() {
            match &statement.kind {
                Kind::Label(name) => {
                    // The name of a list of targets is that of the label before it.
                    let symbol = match statements.get(index + 1).map(|next| &next.kind) {
                        Some(Kind::Targets(targets)) => Symbol::Targets(targets),
                        _ => Symbol::Label(self.label()),
                    };
                    self.define(statement.line, name, symbol)?;
                }
                Kind::Registers { ty, parts, names } => {
                    for (name, count) in names {
                        match count {
                            Some(count) => {
                                let scope = self.scopes.last_mut().expect("there is a scope");
                                if scope.ranges.insert(name, (*count, *ty, *parts)).is_some() {
                                    return Err(Error::Twice { line: statement.line, name: shown(name) });
                                }
                            }
                            None => {
                                self.site.ptx = statement.line;
                                let symbol = self.declare(*ty, *parts)?;
                                self.define(statement.line, name, symbol)?;
                            }
                        }
                    }
                }
                Kind::Variable(variable) => {
                    let symbol = match variable.place {
                        Place::Param => {
                            Symbol::Block(self.block(statement.line, variable.size, variable.align)?)
                        }
                        _ => Symbol::Variable(variable),
                    };
                    self.define(statement.line, &variable.name, symbol)?;
                }
                _ => {}
            }
        }
        for statement in statements {
            match &statement.kind {
                Kind::Label(name) => {
                    if let Some(Symbol::Label(label)) = self.find(name)? {
                        self.mark(label);
                    }
                }
                Kind::Scope(inner) => self.statements(inner)?,
                Kind::Location { file, line } => match self.module.file_numbers.get(file) {
                    Some(&file) => (self.site.file, self.site.line) = (file, *line),
                    None => self.site.line = 0,
                },
                Kind::Instruction { guard, name, operands } => {
                    self.site.ptx = statement.line;
                    self.instruction = name;
                    self.guard = match guard {
                        None => None,
                        Some((name, negated)) => Some((self.predicate_named(name)?, *negated)),
                    };
                    self.instruction(name, operands)?;
                }
                Kind::Registers { .. } | Kind::Variable(_) | Kind::Targets(_) => {}
            }
        }
        self.scopes.pop();
        self.depth -= 1;
        Ok(())
    }

    /// A label that is not marked yet.
    pub fn label(&mut self) -> u32 {
        self.labels.push(None);
        self.labels.len() as u32 - 1
    }

    /// The label is here.
    pub fn mark(&mut self, label: u32) {
        self.labels[label as usize] = Some(self.steps.len() as u32);
    }

    /// The labels of a list of targets.
    pub fn targets(&mut self, name: &'m str) -> Result<Box<[u32]>, Error> {
        let Some(Symbol::Targets(targets)) = self.find(name)? else {
            return Err(self.operand(name, "not a list of targets"));
        };
        if targets.is_empty() {
            return Err(self.operand(name, "has no targets"));
        }
        self.visit(self.site.ptx, targets.len())?;
        targets
            .iter()
            .map(|target| match self.find(target)? {
                Some(Symbol::Label(label)) => Ok(label),
                _ => Err(self.operand(target, "not a label")),
            })
            .collect()
    }

    fn predicate_named(&mut self, name: &'m str) -> Result<Value, Error> {
        match self.named(name)? {
            Named::Value(value) if self.bits(value) == 1 => Ok(value),
            _ => Err(self.operand(name, "not a predicate")),
        }
    }

    /// Adds a step, under the guard of the instruction.
    pub fn emit(&mut self, step: Step) -> Result<(), Error> {
        if self.steps.len() >= INSTRUCTIONS_MAX {
            return Err(Error::TooMany {
                line: self.site.ptx,
                what: "instructions",
                limit: INSTRUCTIONS_MAX,
            });
        }
        self.steps.push(Step { guard: self.guard, site: self.site, ..step });
        Ok(())
    }

    pub fn list(&mut self, values: Vec<Value>) -> Slot {
        self.lists.push(values.into());
        Slot::List(self.lists.len() as u32 - 1)
    }

    /// Variables of the module.
    pub fn variables(&self) -> &[crate::program::Variable] {
        &self.module.variables
    }

    /// The line of the instruction.
    pub fn here(&self) -> u32 {
        self.site.ptx
    }

    /// An operand of the instruction is not as it must be.
    pub fn operand(&self, operand: &str, why: &'static str) -> Error {
        let instruction = shown(self.instruction);
        Error::Operand { line: self.site.ptx, instruction, operand: format!("`{}`", shown(operand)), why }
    }

    // Calls

    /// What is in the parameter space for a call.
    pub fn block(&mut self, line: u32, bytes: Option<u64>, align: u64) -> Result<u32, Error> {
        let bytes = bytes.filter(|bytes| *bytes <= PARAM_BYTES_MAX);
        let limit = PARAM_BYTES_MAX as usize;
        let bytes = bytes.ok_or(Error::TooMany { line, what: "bytes of parameters", limit })?;
        self.blocks.push(Block { bytes, align, addressed: false, parts: BTreeSet::new() });
        Ok(self.blocks.len() as u32 - 1)
    }

    pub fn block_bytes(&self, block: u32) -> u64 {
        self.blocks[block as usize].bytes
    }

    /// Its address is taken.
    pub fn address_block(&mut self, block: u32) {
        self.blocks[block as usize].addressed = true;
    }

    /// A part of it is read or written.
    pub fn touch(&mut self, block: u32, offset: u32, bytes: u8) {
        self.blocks[block as usize].parts.insert((offset, bytes));
    }

    /// `call`: `results` and `arguments` as they are written.
    pub fn call(
        &mut self,
        name: &'m str,
        results: &'m [Operand],
        arguments: &'m [Operand],
    ) -> Result<(), Error> {
        let line = self.site.ptx;
        let module = self.module;
        let Some(function) = module.function(name) else {
            return self.library(name, results, arguments);
        };
        if function.entry {
            return Err(self.operand(name, "a kernel cannot be called"));
        }
        if self.calls.contains(&name) {
            return Err(Error::Recursion { line, name: shown(name) });
        }
        if function.results.len() != results.len() || function.params.len() != arguments.len() {
            return Err(self.operand(name, "takes another number of parameters"));
        }
        self.visit(line, function.params.len() + function.results.len())?;
        let after = self.label();
        self.skip_unguarded(after)?;
        let arguments = self.bind(&function.params, arguments, true)?;
        let bound = self.bind(&function.results, results, false)?;
        let before = (self.site, self.guard.take(), self.instruction, self.returns.replace(after));
        // Names of the caller are not those of the function.
        let scopes = std::mem::replace(&mut self.scopes, vec![Names::default()]);
        self.calls.push(&function.name);
        for (formal, &block) in function.params.iter().zip(&arguments) {
            self.formal(line, formal, block, true)?;
        }
        for (formal, &block) in function.results.iter().zip(&bound) {
            self.formal(line, formal, block, false)?;
        }
        self.statements(function.body.as_deref().unwrap_or_default())?;
        self.guard = None;
        self.calls.pop();
        self.mark(after);
        for (formal, &block) in function.results.iter().zip(&bound) {
            if let Formal::Register(name, ty) = formal
                && let Some(Symbol::Register(value)) = self.find(name)?
            {
                self.put(block, 0, ty.bits().div_ceil(8), value)?;
            }
        }
        self.scopes = scopes;
        (self.site, self.guard, self.instruction, self.returns) = before;
        self.guard = None;
        self.unbind(results, &bound)
    }

    /// Lanes for which the guard does not hold go on at the label; what follows is not guarded.
    pub fn skip_unguarded(&mut self, after: u32) -> Result<(), Error> {
        if let Some((guard, negated)) = self.guard {
            self.guard = Some((guard, !negated));
            self.emit(Step::new(Op::Branch { target: after, join: NEVER }))?;
            self.guard = None;
        }
        Ok(())
    }

    /// The parameter space in which arguments lie: what is not there is put there.
    fn bind(&mut self, formals: &'m [Formal], actuals: &'m [Operand], puts: bool) -> Result<Vec<u32>, Error> {
        let mut blocks = Vec::with_capacity(actuals.len());
        for (formal, actual) in formals.iter().zip(actuals) {
            let (bytes, align, ty) = match formal {
                Formal::Memory(variable) => (variable.size, variable.align, variable.part),
                Formal::Register(_, ty) => (Some(ty.bits().div_ceil(8).into()), 1, *ty),
            };
            if let Operand::Name(name) = actual
                && let Named::Block(block) = self.named(name)?
            {
                if bytes.is_none_or(|bytes| bytes > self.block_bytes(block)) {
                    return Err(self.operand(name, "smaller than the parameter of the function"));
                }
                blocks.push(block);
                continue;
            }
            let block = self.block(self.site.ptx, bytes, align)?;
            if puts {
                let value = self.source(actual, ty)?;
                self.put(block, 0, ty.bits().div_ceil(8), value)?;
            }
            blocks.push(block);
        }
        Ok(blocks)
    }

    /// Results that are wanted in registers are read from where they lie.
    pub fn unbind(&mut self, results: &'m [Operand], blocks: &[u32]) -> Result<(), Error> {
        for (result, &block) in results.iter().zip(blocks) {
            if let Operand::Name(name) = result
                && let Named::Value(value) = self.named(name)?
            {
                let bytes = self.bits(value).div_ceil(8);
                self.take(block, 0, bytes, false, value)?;
            }
        }
        Ok(())
    }

    /// A formal parameter by its name, which a register `takes` from where it lies.
    fn formal(&mut self, line: u32, formal: &'m Formal, block: u32, takes: bool) -> Result<(), Error> {
        match formal {
            Formal::Register(name, Type::Pred | Type::B128) => {
                Err(self.operand(name, "such parameters are not emulated"))
            }
            Formal::Memory(variable) => self.define(line, &variable.name, Symbol::Block(block)),
            Formal::Register(name, ty) => {
                let value = self.register(ty.bits())?;
                self.define(line, name, Symbol::Register(value))?;
                if takes {
                    self.take(block, 0, ty.bits().div_ceil(8), false, value)?;
                }
                Ok(())
            }
        }
    }

    /// Reads from the parameter space of a call.
    pub fn take(
        &mut self,
        block: u32,
        offset: u32,
        bytes: u8,
        signed: bool,
        value: Value,
    ) -> Result<(), Error> {
        self.touch(block, offset, bytes);
        let work = Work::Take { block, offset, bytes, signed };
        self.emit(Step { work, d: value.into(), ..Step::new(Op::Nop) })
    }

    /// Writes to the parameter space of a call.
    pub fn put(&mut self, block: u32, offset: u32, bytes: u8, value: Value) -> Result<(), Error> {
        self.touch(block, offset, bytes);
        let work = Work::Put { block, offset, bytes };
        self.emit(Step { work, b: value.into(), ..Step::new(Op::Nop) })
    }

    /// The address of what is in the parameter space of a call.
    pub fn emit_where(&mut self, block: u32, offset: u32, value: Value) -> Result<(), Error> {
        let work = Work::Where { block, offset };
        self.emit(Step { work, d: value.into(), ..Step::new(Op::Nop) })
    }

    /// Decides where what is passed to functions lies: in registers, if it is read as it was written, and in local memory otherwise.
    fn settle(&mut self) -> Result<(), Error> {
        let blocks = std::mem::take(&mut self.blocks);
        let mut homes = Vec::with_capacity(blocks.len());
        for block in blocks {
            let ends = block.parts.iter().map(|(offset, bytes)| offset + u32::from(*bytes));
            let apart = block.parts.iter().skip(1).zip(ends).all(|((offset, _), end)| end <= *offset);
            homes.push(if apart && !block.addressed {
                let mut parts = Vec::with_capacity(block.parts.len());
                for (offset, bytes) in block.parts {
                    parts.push((offset, self.register(8 * bytes)?));
                }
                Home::Registers(parts)
            } else {
                let offset = self.local_bytes.next_multiple_of(block.align.max(8));
                self.local_bytes = offset + block.bytes;
                if self.local_bytes > LOCAL_BYTES_MAX {
                    let (line, limit) = (1, LOCAL_BYTES_MAX as usize);
                    return Err(Error::TooMany { line, what: "bytes of local memory", limit });
                }
                Home::Local(offset)
            });
        }
        for index in 0..self.steps.len() {
            let step = self.steps[index];
            let settled = match step.work {
                Work::Op(_) | Work::Nothing => continue,
                Work::Take { block, offset, bytes, signed } => match &homes[block as usize] {
                    Home::Registers(parts) => {
                        let Slot::Value(d) = step.d else { continue };
                        let op = widened(bytes, signed, self.bits(d));
                        Step { work: Work::Op(op), a: part(parts, offset).into(), ..step }
                    }
                    Home::Local(begins) => {
                        let Slot::Value(d) = step.d else { continue };
                        let access = local(bytes, signed, self.bits(d));
                        let a = self.constant(64, begins + u64::from(offset))?;
                        Step { work: Work::Op(Op::Load(access)), a: a.into(), ..step }
                    }
                },
                Work::Put { block, offset, bytes } => match &homes[block as usize] {
                    Home::Registers(parts) => {
                        let Slot::Value(b) = step.b else { continue };
                        let op = narrowed(self.bits(b), bytes);
                        let d = part(parts, offset).into();
                        Step { work: Work::Op(op), d, a: step.b, b: Slot::None, ..step }
                    }
                    Home::Local(begins) => {
                        let Slot::Value(b) = step.b else { continue };
                        let access = local(bytes, false, self.bits(b));
                        let a = self.constant(64, begins + u64::from(offset))?;
                        Step { work: Work::Op(Op::Store(access)), a: a.into(), ..step }
                    }
                },
                Work::Where { block, offset } => {
                    let Home::Local(begins) = &homes[block as usize] else { continue };
                    let a = self.constant(64, begins + u64::from(offset))?;
                    Step { work: Work::Op(Op::Mov(Bits::B64)), a: a.into(), ..step }
                }
            };
            self.steps[index] = settled;
        }
        Ok(())
    }

    /// Registers that only ever hold a preset are replaced by it, and the steps that fill them left out.
    fn fold(&mut self) {
        let mut written = vec![0u8; self.registers.len()];
        for step in &self.steps {
            for slot in [step.d, step.e] {
                let values: &[Value] = match &slot {
                    Slot::None => &[],
                    Slot::Value(value) => std::slice::from_ref(value),
                    Slot::List(list) => &self.lists[*list as usize],
                };
                for value in values.iter().filter(|value| **value != SINK) {
                    let count = &mut written[value.0 as usize];
                    *count = count.saturating_add(1);
                }
            }
        }
        let mut stands_for: Vec<Option<Value>> = vec![None; self.registers.len()];
        // Text is mostly in the order in which it runs: what a second look does not find is left as it is.
        for _ in 0..2 {
            for index in 0..self.steps.len() {
                let step = self.steps[index];
                let (Slot::Value(d), Slot::Value(a), None, Work::Op(op)) =
                    (step.d, step.a, step.guard, step.work)
                else {
                    continue;
                };
                if written[d.0 as usize] != 1 || stands_for[d.0 as usize].is_some() {
                    continue;
                }
                let a = stands_for[a.0 as usize].unwrap_or(a);
                let Some(preset) = self.registers[a.0 as usize].preset else { continue };
                let value = match (op, preset) {
                    (Op::Mov(_), _) => Some(a),
                    (Op::ConvertAddress { space, to_space: false, wide: true }, Preset::Bits(bits)) => {
                        let segment = match space {
                            Space::Shared => address::SHARED,
                            Space::Local => address::LOCAL,
                            Space::Param => address::PARAM,
                            Space::Generic | Space::Global | Space::Const => continue,
                        };
                        self.constant(64, address::generic(segment, bits)).ok()
                    }
                    _ => continue,
                };
                stands_for.resize(self.registers.len(), None);
                stands_for[d.0 as usize] = value;
                written.resize(self.registers.len(), 0);
            }
        }
        let stands = |slot: Slot| match slot {
            Slot::Value(value) => Slot::Value(stands_for[value.0 as usize].unwrap_or(value)),
            other => other,
        };
        for step in &mut self.steps {
            if let Slot::Value(d) = step.d
                && stands_for[d.0 as usize].is_some()
            {
                *step = Step { work: Work::Nothing, ..Step::new(Op::Nop) };
                continue;
            }
            (step.a, step.b, step.c, step.f) =
                (stands(step.a), stands(step.b), stands(step.c), stands(step.f));
            if let Some((guard, _)) = &mut step.guard {
                *guard = stands_for[guard.0 as usize].unwrap_or(*guard);
            }
        }
        for list in &mut self.lists {
            for value in list.iter_mut().filter(|value| **value != SINK) {
                *value = stands_for[value.0 as usize].unwrap_or(*value);
            }
        }
    }
}
