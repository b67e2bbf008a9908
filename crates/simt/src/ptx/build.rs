//! A kernel of a module as a list of steps over virtual registers, in which the functions that it calls are put in.

mod calls;
mod names;

use std::collections::HashMap;

use self::calls::Block;
pub(super) use self::names::Named;
use self::names::{Names, Symbol};
use super::syntax::{Formal, Function, Kind, Place, Statement, Variable};
use super::{Error, INSTRUCTIONS_MAX, Module, flow, shown, slots};
use crate::origins::Origins;
use crate::program::{
    Access, Bits, Conversion, Format, Kernel, NEVER, Op, Order, Param, Preset, Scalar, Site, Space,
};
use crate::shared;

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

/// A result in a list that is not wanted.
pub(super) const SINK: Value = Value(u32::MAX);

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
    /// Bytes of shared memory as on a GPU.
    shared_bytes: u64,
    /// In the order in which they lie.
    arrays: Vec<shared::Array>,
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
    shared: shared::Layout,
}

/// The steps of a kernel.
pub(super) fn lower<'m>(module: &'m Module, function: &'m Function) -> Result<Lowered<'m>, Error> {
    if let Some((line, directive)) = &function.refused {
        return Err(Error::Newer { line: *line, what: format!(".{directive}"), needs: "sm_90" });
    }
    let mut builder = Builder::new(module, 0);
    let mut params = builder.kernel(function)?;
    // What is sized by the launch comes after all else in shared memory, and how much that is, is known only now.
    let mut dynamic = None;
    if let Some(align) = builder.dynamic_align.map(|align| align.max(16)) {
        let begins = builder.shared_end().next_multiple_of(align);
        if begins > 0 {
            builder = Builder::new(module, begins);
            params = builder.kernel(function)?;
        }
        dynamic = Some(begins as u32);
        builder.shared_bytes = builder.shared_bytes.next_multiple_of(align);
    }
    let arrays = std::mem::take(&mut builder.arrays);
    let shared = shared::Layout::new(arrays, dynamic, builder.shared_bytes as u32);
    let (params, param_bytes) = params;
    builder.settle()?;
    builder.fold();
    builder.know_formats();
    let flow = flow::flow(&mut builder)?;
    Ok(Lowered { builder, flow, params, param_bytes, shared })
}

/// Where each instruction comes from. What a compiler left without a line, as what it made one of two, has that of the one before; at the
/// beginning of what runs together, that of the one behind, since the one before may be of what does not run with it.
fn sites(flow: &flow::Flow) -> Vec<Site> {
    let is_known = |step: &&Step| step.site.line > 0;
    let mut last = None;
    let mut sites = Vec::with_capacity(flow.steps.len());
    for block in &flow.blocks {
        let steps = &flow.steps[block.start..block.end];
        last = steps.iter().find(is_known).map(|step| step.site).or(last);
        for step in steps {
            last = Some(step).filter(is_known).map(|step| step.site).or(last);
            sites.push(last.map_or(step.site, |last| Site { ptx: step.site.ptx, ..last }));
        }
    }
    sites
}

/// Which steps what each uses may come from.
fn origins(builder: &Builder<'_>, steps: &[Step]) -> Origins {
    let (mut used, mut made) = (Vec::new(), Vec::new());
    for (at, step) in (0..).zip(steps) {
        slots::reads(builder, step, |value| used.push((at, value.0)));
        slots::values(builder, &step.results(), |value| made.push((value.0, at)));
    }
    Origins::new(steps.len(), builder.registers.len(), used, made)
}

/// Most bytes of shared memory that a kernel itself may size: no assembler of NVIDIA's takes more.
const SHARED_STATIC_MAX: usize = 48 << 10;

/// A kernel as it runs.
pub(super) fn kernel(module: &Module, function: &Function) -> Result<Kernel, Error> {
    let Lowered { builder, flow, params, param_bytes, shared } = lower(module, function)?;
    if shared.bytes as usize > SHARED_STATIC_MAX {
        let what = "bytes of shared memory sized by the kernel; what is more a launch must ask for";
        return Err(Error::TooMany { line: function.line, what, limit: SHARED_STATIC_MAX });
    }
    let allocated = slots::allocate(&builder, &flow)?;
    let origins = origins(&builder, &flow.steps);
    Ok(Kernel {
        name: function.name.clone(),
        params,
        param_bytes,
        code: allocated.code,
        sites: sites(&flow),
        files: module.files.clone(),
        regs32: allocated.counts[0],
        regs64: allocated.counts[1],
        preds: allocated.counts[2],
        presets32: allocated.presets32,
        presets64: allocated.presets64,
        presets_pred: allocated.presets_pred,
        tables: flow.tables,
        lists: allocated.lists,
        shared,
        local_bytes: builder.local_bytes as u32,
        variables: module.variables.clone(),
        required_threads: function.required_threads,
        max_threads: function.max_threads,
        origins,
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
            arrays: Vec::new(),
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
            params.push(Param {
                name: variable.name.clone(),
                offset,
                size,
                is_float: variable.part.is_float(),
            });
        }
        Ok((params, end as u32))
    }

    // Names

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

    /// Lanes for which the guard does not hold go on at the label; what follows is not guarded.
    pub fn skip_unguarded(&mut self, after: u32) -> Result<(), Error> {
        if let Some((guard, negated)) = self.guard {
            self.guard = Some((guard, !negated));
            self.emit(Step::new(Op::Branch { target: after, join: NEVER }))?;
            self.guard = None;
        }
        Ok(())
    }
}
