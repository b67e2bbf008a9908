//! Which way a kernel goes, and where lanes that go apart meet again.
//!
//! They meet where all ways from the branch come together: at its immediate post-dominator (Cooper, Harvey and Kennedy, "A Simple,
//! Fast Dominance Algorithm", on the reversed graph). Ways that only end, or that end the launch, are not counted, as no lane that
//! goes there comes back: otherwise `if (i >= n) return;` within a branch would keep the others apart to the end of the kernel.

use super::Error;
use super::build::{Builder, Slot, Step, Work};
use crate::program::{NEVER, Op};

/// Steps of the search for post-dominators: a kernel that needs more was made to.
const SEARCH_MAX: usize = 1 << 28;

/// Steps from the first to before the end, which run one after another.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block {
    pub start: usize,
    pub end: usize,
    /// Where it goes on, each once.
    pub next: Vec<usize>,
}

/// Steps as they are laid out, with targets that are steps.
pub(super) struct Flow {
    pub steps: Vec<Step>,
    pub tables: Vec<Box<[u32]>>,
    pub blocks: Vec<Block>,
}

/// Lays out the steps that can be reached.
pub(super) fn flow(builder: &mut Builder<'_>) -> Result<Flow, Error> {
    let labels = compact(builder);
    let steps = &builder.steps;
    let tables: Vec<Vec<usize>> = builder
        .tables
        .iter()
        .map(|table| table.iter().map(|label| labels[*label as usize]).collect())
        .collect();
    let blocks = reachable(&blocks(steps, &labels, &tables));
    let joins = joins(steps, &blocks)?;

    let mut meets = vec![false; blocks.len()];
    for join in joins.iter().flatten() {
        meets[*join] = true;
    }
    // Where each step comes to be; those that can be branched to are the first of their block, or the `Meet` before it.
    let mut starts = vec![NEVER; steps.len()];
    let mut laid = Vec::with_capacity(steps.len());
    let mut laid_blocks = Vec::with_capacity(blocks.len());
    for (block, meets) in blocks.iter().zip(meets) {
        let start = laid.len();
        starts[block.start] = start as u32;
        if meets {
            laid.push(Step { site: steps[block.start].site, ..Step::new(Op::Meet) });
        }
        laid.extend_from_slice(&steps[block.start..block.end]);
        laid_blocks.push(Block { start, end: laid.len(), next: block.next.clone() });
    }
    let mut laid_tables = vec![Box::from([]); tables.len()];
    for (block, join) in laid_blocks.iter().zip(&joins) {
        let meeting = join.map_or(NEVER, |join| laid_blocks[join].start as u32);
        match &mut laid[block.end - 1].work {
            Work::Op(Op::Branch { target, join }) => {
                *target = starts[labels[*target as usize]];
                *join = meeting;
            }
            Work::Op(Op::BranchIndexed { table, join }) => {
                let targets = &tables[*table as usize];
                laid_tables[*table as usize] = targets.iter().map(|target| starts[*target]).collect();
                *join = meeting;
            }
            _ => {}
        }
    }
    Ok(Flow { steps: laid, tables: laid_tables, blocks: laid_blocks })
}

/// Leaves out steps that do nothing, and branches to what follows anyway; gives the step of each label.
fn compact(builder: &mut Builder<'_>) -> Vec<usize> {
    let steps = &builder.steps;
    let label = |label: u32| builder.labels[label as usize].unwrap_or_default() as usize;
    // The first step at or after each that is kept.
    let mut kept = vec![steps.len(); steps.len() + 1];
    for index in (0..steps.len()).rev() {
        let nothing = match steps[index].work {
            Work::Nothing => true,
            Work::Op(Op::Branch { target, .. }) => {
                label(target) > index && kept[label(target)] == kept[index + 1]
            }
            _ => false,
        };
        kept[index] = if nothing { kept[index + 1] } else { index };
    }
    let mut places = vec![0; steps.len() + 1];
    let mut count = 0;
    for index in 0..steps.len() {
        places[index] = count;
        count += usize::from(kept[index] == index);
    }
    places[steps.len()] = count;
    let labels = (0..builder.labels.len() as u32).map(|each| places[kept[label(each)]]).collect();
    let mut index = 0;
    builder.steps.retain(|_| {
        index += 1;
        kept[index - 1] == index - 1
    });
    labels
}

/// Whether nothing follows the step.
fn ends(step: &Step) -> bool {
    step.guard.is_none() && matches!(step.work, Work::Op(Op::Exit | Op::Trap | Op::AssertFail(_)))
}

fn branches(step: &Step) -> bool {
    matches!(step.work, Work::Op(Op::Branch { .. } | Op::BranchIndexed { .. }))
}

fn blocks(steps: &[Step], labels: &[usize], tables: &[Vec<usize>]) -> Vec<Block> {
    let mut leads = vec![false; steps.len() + 1];
    leads[0] = true;
    for (index, step) in steps.iter().enumerate() {
        match step.work {
            Work::Op(Op::Branch { target, .. }) => leads[labels[target as usize]] = true,
            Work::Op(Op::BranchIndexed { table, .. }) => {
                tables[table as usize].iter().for_each(|target| leads[*target] = true);
            }
            _ => {}
        }
        leads[index + 1] |= branches(step) || ends(step);
    }
    let starts: Vec<usize> = (0..steps.len()).filter(|index| leads[*index]).collect();
    let mut block_of = vec![usize::MAX; steps.len()];
    for (block, start) in starts.iter().enumerate() {
        block_of[*start] = block;
    }
    let block = |(index, &start): (usize, &usize)| {
        let end = starts.get(index + 1).copied().unwrap_or(steps.len());
        let last = &steps[end - 1];
        let mut next = match last.work {
            Work::Op(Op::Branch { target, .. }) => vec![block_of[labels[target as usize]]],
            Work::Op(Op::BranchIndexed { table, .. }) => {
                tables[table as usize].iter().map(|target| block_of[*target]).collect()
            }
            _ => Vec::new(),
        };
        let falls_through = !ends(last) && (!branches(last) || last.guard.is_some());
        if falls_through && end < steps.len() {
            next.push(index + 1);
        }
        next.sort_unstable();
        next.dedup();
        Block { start, end, next }
    };
    starts.iter().enumerate().map(block).collect()
}

/// The blocks that can be reached from the first, in their order.
fn reachable(blocks: &[Block]) -> Vec<Block> {
    let mut numbers = vec![usize::MAX; blocks.len()];
    let mut open = vec![0];
    numbers[0] = 0;
    while let Some(block) = open.pop() {
        for &next in &blocks[block].next {
            if numbers[next] == usize::MAX {
                numbers[next] = 0;
                open.push(next);
            }
        }
    }
    let mut count = 0;
    for number in numbers.iter_mut().filter(|number| **number == 0) {
        *number = count;
        count += 1;
    }
    let kept = blocks.iter().zip(&numbers).filter(|(_, number)| **number != usize::MAX);
    kept.map(|(block, _)| Block {
        next: block.next.iter().map(|next| numbers[*next]).collect(),
        ..block.clone()
    })
    .collect()
}

/// The block in which lanes meet that go apart at the end of each block.
fn joins(steps: &[Step], blocks: &[Block]) -> Result<Vec<Option<usize>>, Error> {
    let ways = ways(steps, blocks);
    let dominators = dominators(&ways)?;
    let join = |(block, dominator): (&Block, &usize)| {
        (block.next.len() > 1 && *dominator < blocks.len()).then_some(*dominator)
    };
    Ok(blocks.iter().zip(&dominators).map(join).collect())
}

/// Where lanes go on that may come back, for each block; the number after the last block is the end.
fn ways(steps: &[Step], blocks: &[Block]) -> Vec<Vec<usize>> {
    let end = blocks.len();
    let before = reversed(blocks.iter().map(|block| &block.next[..]), blocks.len());
    // Blocks after which the launch ends, whatever is done.
    let mut doomed = vec![false; blocks.len()];
    let mut left: Vec<usize> = blocks.iter().map(|block| block.next.len()).collect();
    let is_trap = |block: &Block| {
        let last = &steps[block.end - 1];
        last.guard.is_none() && matches!(last.work, Work::Op(Op::Trap | Op::AssertFail(_)))
    };
    let mut open: Vec<usize> = (0..blocks.len()).filter(|block| is_trap(&blocks[*block])).collect();
    open.iter().for_each(|block| doomed[*block] = true);
    while let Some(block) = open.pop() {
        for &previous in &before[block] {
            left[previous] -= 1;
            if left[previous] == 0 && !doomed[previous] {
                doomed[previous] = true;
                open.push(previous);
            }
        }
    }
    let only_ends = |block: &Block| block.end - block.start == 1 && ends(&steps[block.start]);
    let goes_nowhere: Vec<bool> =
        blocks.iter().zip(&doomed).map(|(block, doomed)| *doomed || only_ends(block)).collect();
    let all = |block: usize| {
        if blocks[block].next.is_empty() { vec![end] } else { blocks[block].next.clone() }
    };
    let counted = |block: usize| {
        let next: Vec<usize> =
            blocks[block].next.iter().copied().filter(|next| !goes_nowhere[*next]).collect();
        if next.is_empty() { all(block) } else { next }
    };
    let mut ways: Vec<Vec<usize>> = (0..blocks.len()).map(counted).collect();
    let reached = reaching(&ways, end);
    for block in (0..blocks.len()).filter(|block| !reached[*block]) {
        ways[block] = all(block);
    }
    // What is left never ends: each such loop is given an end, from the block that comes last.
    loop {
        let reached = reaching(&ways, end);
        let Some(last) = (0..blocks.len()).rev().find(|block| !reached[*block]) else { return ways };
        let before = reversed(ways.iter().map(|next| &next[..]), end + 1);
        let mut reached = reached;
        let mut next_last = Some(last);
        while let Some(last) = next_last {
            ways[last].push(end);
            mark(&before, &mut reached, last);
            next_last = (0..last).rev().find(|block| !reached[*block]);
        }
    }
}

fn reversed<'a>(next: impl Iterator<Item = &'a [usize]>, count: usize) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); count];
    for (block, next) in next.enumerate() {
        for &next in next {
            before[next].push(block);
        }
    }
    before
}

/// From which blocks the end is reached.
fn reaching(ways: &[Vec<usize>], end: usize) -> Vec<bool> {
    let before = reversed(ways.iter().map(|next| &next[..]), end + 1);
    let mut reached = vec![false; end + 1];
    mark(&before, &mut reached, end);
    reached
}

fn mark(before: &[Vec<usize>], reached: &mut [bool], from: usize) {
    let mut open = vec![from];
    reached[from] = true;
    while let Some(block) = open.pop() {
        for &previous in &before[block] {
            if !reached[previous] {
                reached[previous] = true;
                open.push(previous);
            }
        }
    }
}

/// The immediate post-dominator of each block; the number after the last is the end.
fn dominators(ways: &[Vec<usize>]) -> Result<Vec<usize>, Error> {
    let end = ways.len();
    let before = reversed(ways.iter().map(|next| &next[..]), end + 1);
    // Numbers in which a block comes after those that it is reached from, backwards from the end.
    let mut order = Vec::with_capacity(end + 1);
    let mut seen = vec![false; end + 1];
    let mut open = vec![(end, 0)];
    seen[end] = true;
    while let Some((block, at)) = open.pop() {
        match before[block].get(at) {
            Some(&previous) => {
                open.push((block, at + 1));
                if !seen[previous] {
                    seen[previous] = true;
                    open.push((previous, 0));
                }
            }
            None => order.push(block),
        }
    }
    let mut numbers = vec![0; end + 1];
    for (number, block) in order.iter().enumerate() {
        numbers[*block] = number;
    }
    const UNKNOWN: usize = usize::MAX;
    let mut dominators = vec![UNKNOWN; end + 1];
    dominators[end] = end;
    let mut searched = 0;
    let mut changed = true;
    while changed {
        changed = false;
        for &block in order.iter().rev().skip(1) {
            let mut found = UNKNOWN;
            for &next in ways[block].iter().filter(|next| dominators[**next] != UNKNOWN) {
                if found == UNKNOWN {
                    found = next;
                    continue;
                }
                let mut other = next;
                while found != other {
                    while numbers[found] < numbers[other] {
                        found = dominators[found];
                        searched += 1;
                    }
                    while numbers[other] < numbers[found] {
                        other = dominators[other];
                        searched += 1;
                    }
                }
            }
            searched += 1;
            if searched > SEARCH_MAX {
                return Err(Error::TooMany { line: 1, what: "ways through branches", limit: SEARCH_MAX });
            }
            if dominators[block] != found {
                dominators[block] = found;
                changed = true;
            }
        }
    }
    dominators.truncate(end);
    Ok(dominators)
}

impl Step {
    /// Operands that are registers or lists.
    pub(super) fn sources(&self) -> [Slot; 4] {
        [self.a, self.b, self.c, self.f]
    }

    /// Results that are registers or lists.
    pub(super) fn results(&self) -> [Slot; 2] {
        [self.d, self.e]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Post-dominators by their definition: without the block, the end is not reached.
    fn by_definition(ways: &[Vec<usize>]) -> Vec<usize> {
        let end = ways.len();
        let dominates = |by: usize, block: usize| {
            let mut without = ways.to_vec();
            if by < end {
                without[by].clear();
            }
            by == end || by == block || !reaching(&without, end)[block]
        };
        let strict = |block: usize| (0..=end).filter(move |by| *by != block && dominates(*by, block));
        let immediate = |block: usize| {
            strict(block).find(|by| {
                strict(block)
                    .all(|other| other == *by || other == end || (*by < end && dominates(other, *by)))
            })
        };
        (0..end).map(|block| immediate(block).unwrap()).collect()
    }

    proptest::proptest! {
        #[test]
        fn dominators_are_those_of_the_definition(
            ways in (2usize..12).prop_flat_map(|count| {
                proptest::collection::vec(proptest::collection::vec(0..=count, 1..3), count)
            }),
        ) {
            let mut ways = ways;
            let end = ways.len();
            let reached = reaching(&ways, end);
            for block in 0..end {
                ways[block].sort_unstable();
                ways[block].dedup();
                if !reached[block] {
                    ways[block].push(end);
                }
            }
            proptest::prop_assert_eq!(dominators(&ways).unwrap(), by_definition(&ways));
        }
    }

    use proptest::strategy::Strategy;

    #[test]
    fn what_is_made_to_be_slow_is_refused() {
        // Many branches into a long chain, each of which is walked to its end.
        let count = 40_000;
        let mut ways: Vec<Vec<usize>> = (0..count).map(|block| vec![block + 1, count + 1]).collect();
        ways.push(vec![2 * count]);
        ways.extend((0..count - 1).map(|block| vec![count + 2 + block]));
        ways.push(vec![2 * count + 1]);
        assert!(matches!(dominators(&ways), Err(Error::TooMany { .. })));
    }
}
