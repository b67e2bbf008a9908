//! How much of its kernels a device was made to run.

use std::collections::{BTreeMap, BTreeSet};

use tribunal_simt::fault::Line;
use tribunal_simt::launch::Report;
use tribunal_simt::program::{Kernel, Op};

use crate::evidence::Coverage;

/// Stretches of lines, and lines of loops, that are told of a kernel.
const PLACES_MOST: usize = 100;

/// Of each kernel that was launched, which of its instructions some lane took part in.
#[derive(Debug, Clone, Default)]
pub(super) struct Covered(BTreeMap<String, Vec<bool>>);

impl Covered {
    /// Adds what a launch ran.
    pub fn note(&mut self, report: &Report) {
        self.add(report.kernel.clone(), &report.reached);
    }

    /// Adds what another device saw of the same kernels.
    pub fn join(&mut self, other: Covered) {
        other.0.into_iter().for_each(|(kernel, reached)| self.add(kernel, &reached));
    }

    fn add(&mut self, kernel: String, reached: &[bool]) {
        let known = self.0.entry(kernel).or_insert_with(|| vec![false; reached.len()]);
        known.iter_mut().zip(reached).for_each(|(known, reached)| *known |= reached);
    }

    /// That of each of the kernels.
    pub fn of(&self, kernels: &BTreeMap<String, Kernel>) -> Vec<Coverage> {
        kernels.values().map(|kernel| coverage(kernel, self.0.get(&kernel.name).map(Vec::as_slice))).collect()
    }
}

fn coverage(kernel: &Kernel, reached: Option<&[bool]>) -> Coverage {
    let (mut instructions, mut covered) = (0, 0);
    // A line is covered if any of its instructions is: of a choice in one line, a branch of it may be missing.
    let mut lines: BTreeMap<Line, bool> = BTreeMap::new();
    for (pc, inst) in kernel.code.iter().enumerate().filter(|(_, inst)| inst.op != Op::Meet) {
        let ran = reached.is_some_and(|reached| reached[pc]);
        instructions += 1;
        covered += u64::from(ran);
        // Where all ends there is nothing to be seen, and a trap is there not to be come to.
        if !matches!(inst.op, Op::Exit | Op::Trap) {
            *lines.entry(Line::of(kernel, pc as u32)).or_default() |= ran;
        }
    }
    let [uncovered, once] = match reached {
        Some(reached) => [stretches(lines), loops_run_once(kernel, reached)].map(at_most),
        None => [vec![], vec![]],
    };
    Coverage {
        kernel: kernel.name.clone(),
        launched: reached.is_some(),
        instructions,
        covered,
        uncovered,
        once,
    }
}

fn at_most(mut places: Vec<String>) -> Vec<String> {
    let more = places.len().saturating_sub(PLACES_MOST);
    places.truncate(PLACES_MOST);
    if more > 0 {
        places.push(format!("{more} more"));
    }
    places
}

/// Where loops begin again to which some lane came, and no lane ever went back. A lane takes part in a branch if it goes where that leads.
fn loops_run_once(kernel: &Kernel, reached: &[bool]) -> Vec<String> {
    // By where they begin: one may have several ways back.
    let mut loops: BTreeMap<u32, (bool, Line)> = BTreeMap::new();
    for (pc, inst) in kernel.code.iter().enumerate() {
        if let Op::Branch { target, .. } = inst.op
            && target as usize <= pc
        {
            let (again, line) = loops.entry(target).or_insert_with(|| (false, Line::of(kernel, pc as u32)));
            *again |= reached[pc];
            *line = Line::of(kernel, pc as u32).min(line.clone());
        }
    }
    let once = loops.into_iter().filter(|(target, (again, _))| reached[*target as usize] && !again);
    let lines: BTreeSet<Line> = once.map(|(_, (_, line))| line).collect();
    lines.iter().map(ToString::to_string).collect()
}

/// Lines that are not covered, as `kernel.cu:12-15`: such with no covered one between them are told together.
fn stretches(lines: BTreeMap<Line, bool>) -> Vec<String> {
    let mut stretches: Vec<(Line, u32)> = Vec::new();
    let mut open = false;
    for (line, covered) in lines {
        match stretches.last_mut() {
            Some((first, last)) if open && !covered && first.file == line.file => *last = line.line,
            _ if !covered => stretches.push((line.clone(), line.line)),
            _ => {}
        }
        open = !covered;
    }
    let name = |(first, last): (Line, u32)| {
        if first.line == last { first.to_string() } else { format!("{first}-{last}") }
    };
    stretches.into_iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use tribunal_simt::execute;
    use tribunal_simt::launch::{Argument, Launch, Settings};
    use tribunal_simt::memory::{Buffer, Memory, Role};
    use tribunal_simt::ptx::Module;

    use super::*;

    /// Of numbers below 5 it does one thing, and of others another until they are 5.
    const PTX: &str = r#"
.version 8.0
.target sm_80
.address_size 64
.visible .entry choose(.param .u32 n, .param .u64 to)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    .loc 1 10 5
    ld.param.u32 %r1, [n];
    ld.param.u64 %rd1, [to];
    cvta.to.global.u64 %rd2, %rd1;
    setp.lt.u32 %p1, %r1, 5;
    @%p1 bra $SMALL;
    .loc 1 12 9
    add.u32 %r2, %r1, 7;
$AGAIN:
    .loc 1 13 9
    st.global.u32 [%rd2], %r2;
    sub.u32 %r1, %r1, 1;
    .loc 1 14 9
    setp.ge.u32 %p1, %r1, 5;
    @%p1 bra $AGAIN;
    bra $END;
$SMALL:
    .loc 1 16 9
    st.global.u32 [%rd2], %r1;
$END:
    .loc 1 18 1
    ret;
}
.file 1 "kernel.cu"
"#;

    fn kernels() -> BTreeMap<String, Kernel> {
        let kernel = Module::parse(PTX).unwrap().kernel("choose").unwrap();
        BTreeMap::from([(kernel.name.clone(), kernel)])
    }

    /// What is covered by launches with these numbers.
    fn covered(numbers: &[u32]) -> Covered {
        let mut covered = Covered::default();
        for &number in numbers {
            let mut memory = Memory::new();
            let to = memory.add(Buffer::empty("to", Role::Output, 4, 4));
            let arguments = vec![Argument::U32(number), Argument::Pointer(to)];
            let launch = Launch { grid: [1; 3], block: [32, 1, 1], shared: 0, arguments };
            let report =
                execute::launch(&kernels()["choose"], &launch, &mut memory, &Settings::default()).unwrap();
            covered.note(&report);
        }
        covered
    }

    #[test]
    fn lines_that_no_lane_came_to_are_told() {
        for (numbers, uncovered) in [(&[7][..], "kernel.cu:16"), (&[3, 4], "kernel.cu:12-14")] {
            let [coverage] = &covered(numbers).of(&kernels())[..] else { panic!("one kernel") };
            assert!(coverage.launched && coverage.covered < coverage.instructions, "{coverage:?}");
            assert_eq!(coverage.uncovered, [uncovered]);
        }
    }

    #[test]
    fn loops_that_nobody_went_round_again_are_told() {
        let of = |numbers: &[u32]| -> Vec<String> {
            let [coverage] = covered(numbers).of(&kernels()).try_into().expect("one kernel");
            coverage.once
        };
        assert_eq!(of(&[5]), ["kernel.cu:14"], "of numbers from 5 it counts down to 5");
        assert_eq!(of(&[3]), [""; 0], "who was never in it says nothing of it");
        assert_eq!(of(&[5, 6]), [""; 0]);
    }

    #[test]
    fn devices_cover_together() {
        let mut both = covered(&[7]);
        both.join(covered(&[3]));
        let [coverage] = &both.of(&kernels())[..] else { panic!("one kernel") };
        assert_eq!((coverage.covered, &coverage.uncovered[..]), (coverage.instructions, &[][..]));
    }

    #[test]
    fn a_kernel_that_was_not_launched_says_so() {
        let [coverage] = &Covered::default().of(&kernels())[..] else { panic!("one kernel") };
        assert!(!coverage.launched && coverage.covered == 0 && coverage.instructions > 0, "{coverage:?}");
        assert_eq!(coverage.uncovered, [""; 0]);
    }
}
